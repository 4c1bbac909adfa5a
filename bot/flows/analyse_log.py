"""Answer a log without a case: root line, why, what it is not, next step. Anybody in the workspace may ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bot.blocks import analysis as blocks
from bot.blocks.elements import Message
from bot.errors import UnknownArtifact
from bot.flows.once import once, reply
from bot.flows.showing import Asker, language_for
from bot.flows.take_log import note, shows_a_launch, take_log
from playbooks.judging.first_failure import analyse_blocks
from playbooks.reading.whole_lines import lines_between, whole_lines

if TYPE_CHECKING:
    from bot.flows.services import Services
    from playbooks.judging.finding import Finding

_BEFORE, _AFTER = 5, 15


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer, and the log it is about."""

    sha256: str
    message: Message


def analyse_log(
    services: Services,
    asker: Asker,
    *,
    name: str,
    chunks: Iterable[bytes],
    answer_in: tuple[str | None] | None = None,
    only_launches: bool = False,
) -> Answered:
    """Take the log in and answer it.

    answer_in: (thread,) to post the answer in the asker's channel too, in the same transaction.
    only_launches: whether to post only what shows a launch: nobody asked, the file was just dropped into the channel.

    Raises:
        Repeated: the delivery was taken already.
    """
    log = take_log(services, name, chunks)
    with once(services, asker) as tx:
        note(tx, log, None)
        found = blocks.Analysis(finding=log.finding, sha256=log.sha256, name=name, redactions=log.redactions)
        message = blocks.answer(found, language_for(tx, asker))
        if answer_in is not None and (not only_launches or shows_a_launch(log.finding)):
            reply(tx, services, asker, message, thread_ts=answer_in[0])
    return Answered(log.sha256, message)


def show_lines(services: Services, asker: Asker, sha256: str) -> Message:
    """Show the lines around the root of a stored log.

    Raises:
        UnknownArtifact: the log is not stored any more.
    """
    name, finding = _again(services, sha256)
    root = finding.root_line or 1
    first, last = max(root - _BEFORE, 1), root + _AFTER
    with services.artifacts.open(sha256) as chunks:
        rows = [line.decode("utf-8", "replace") for _, line in lines_between(chunks, first, last)]
    with services.store.read() as reading:
        return blocks.lines_around(name, first, rows, language_for(reading, asker))


def explain_not_oom(services: Services, asker: Asker, sha256: str) -> Message:
    """Explain why a memory line of a stored log is a symptom only.

    Raises:
        UnknownArtifact: the log is not stored any more.
    """
    _name, finding = _again(services, sha256)
    with services.store.read() as reading:
        return blocks.why_not_oom(finding, language_for(reading, asker))


def _again(services: Services, sha256: str) -> tuple[str, Finding]:
    with services.store.read() as reading:
        meta = reading.artifact(sha256)
    if meta is None or not meta.stored:
        raise UnknownArtifact("this log is not stored any more; drop it again")
    with services.artifacts.open(sha256) as chunks:
        return meta.name, analyse_blocks(whole_lines(chunks), services.definitions.signatures())
