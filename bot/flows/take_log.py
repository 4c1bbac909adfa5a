"""Take a log in: redact it, store it by digest, and find its first failure; streaming, whatever its size.

Redaction comes before hashing and storing; the first failure is found in the redacted text, so line numbers are those of
the file that readers get.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.ports import ArtifactMeta
from playbooks.evidence.redaction import redact_stream
from playbooks.judging.first_failure import analyse_blocks
from playbooks.reading.watched import WatchedRun, read_first_line
from playbooks.reading.whole_lines import whole_lines
from playbooks.vocabulary import ErrorClass, Stage

if TYPE_CHECKING:
    from bot.flows.services import Services
    from bot.ports import Writing
    from playbooks.judging.finding import Finding

_STAMP = re.compile(rb"\d\d:\d\d:\d\d|\bpid=\d+")
_IN_MEMORY_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024
_LAUNCH_LOGS = ("vllm_log", "sglang_log", "docker_run_stderr")
"""Beginnings of the input kinds that show a launch."""
_OTHER_TEXTS = ("nvidia_smi", "dmesg", "metrics", "http_response", "docker_inspect_json", "kubectl_describe")
"""Kinds that are looked at without being an attempt, whatever fault they show."""


@dataclass(frozen=True, slots=True)
class TakenLog:
    """A stored, redacted log and what it says."""

    sha256: str
    name: str
    size_bytes: int
    redactions: int
    finding: Finding
    stamped: bool = False
    watched: WatchedRun | None = None
    """What `baseline watch` saw beside the log, when it wrote this one."""
    """Whether times or process ids stand in it, so that no other run writes the same bytes."""

    def meta(self, incident: str | None) -> ArtifactMeta:
        """Return what the store notes about it."""
        return ArtifactMeta(
            sha256=self.sha256,
            name=self.name,
            size_bytes=self.size_bytes,
            media_type="text/plain",
            incident=incident,
            stored=True,
            redactions=self.redactions,
        )


def take_log(services: Services, name: str, chunks: Iterable[bytes]) -> TakenLog:
    """Redact, store and analyse a log.

    Raises:
        ArtifactsUnavailable: it could not be stored.
    """
    digest = hashlib.sha256()
    size = redactions = 0
    stamped = False
    watched: WatchedRun | None = None
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spool:

        def kept() -> Iterator[bytes]:
            nonlocal size, redactions, stamped, watched
            for block, count in redact_stream(whole_lines(chunks, lossless=True)):
                if not size:
                    watched = read_first_line(block.partition(b"\n")[0])
                stamped = stamped or _STAMP.search(block) is not None
                digest.update(block)
                spool.write(block)
                size += len(block)
                redactions += count
                yield block

        finding = analyse_blocks(whole_lines(kept()), services.definitions.signatures())
        spool.seek(0)
        sha256 = digest.hexdigest()
        services.artifacts.put_stream(iter(lambda: spool.read(_CHUNK_BYTES), b""), expected=sha256)
    return TakenLog(
        sha256=sha256,
        name=name,
        size_bytes=size,
        redactions=redactions,
        finding=finding,
        stamped=stamped,
        watched=watched,
    )


def note(tx: Writing, log: TakenLog, incident: str | None) -> None:
    """Note the stored file in a transaction."""
    tx.note_artifact(log.meta(incident))
    tx.artifact_stored(log.sha256)


def shows_a_launch(finding: Finding) -> bool:
    """Whether the text is the log of a launch, and not a command's output or an answer of the engine."""
    engine = finding.engine
    ran = finding.reached is not Stage.NONE or finding.root_line is not None or bool(engine.version or engine.processes)
    if (finding.input_kind.startswith(_LAUNCH_LOGS) and ran) or finding.reached is not Stage.NONE:
        return True
    named = finding.error_class not in {ErrorClass.NONE, ErrorClass.UNKNOWN}
    return named and not finding.input_kind.startswith(_OTHER_TEXTS)
