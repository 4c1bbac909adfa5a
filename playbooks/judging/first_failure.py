"""The first failure of an input, found line by line: one implementation for live watching, dropped logs and the command.

Reads forward, keeps what is suspicious with what was known at the time, and chooses at the end (`choosing`).
Memory stays flat: of a log only candidates, warnings before the failure and the last lines are kept. Once the engine is
known, a line that holds no word of the catalogue and no sign of an error is counted and left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from playbooks.judging.blocks import Block, Blocks, Raised
from playbooks.judging.cache_evidence import CacheEvidence
from playbooks.judging.candidates import Candidate
from playbooks.judging.choosing import choose
from playbooks.judging.finding import EngineFacts, Finding
from playbooks.judging.input_kinds import KindDetector
from playbooks.judging.launch_progress import Progress
from playbooks.judging.matching import Match, Matcher
from playbooks.judging.material import Material
from playbooks.judging.signature_catalogue import Catalogue, Derived, Marker, Signature
from playbooks.judging.skimming import Phase
from playbooks.judging.tail import Tail
from playbooks.reading.engine_facts import EngineReader
from playbooks.reading.numbered import Numbering
from playbooks.reading.transcript import Line, read_line, records
from playbooks.reading.watched import read_first_line
from playbooks.vocabulary import ErrorClass, Stage

_MOST_CANDIDATES = 400
_MOST_WARNINGS = 200
_TAIL: Final = 60
"""Lines at the end of a launch that are compared where no cause was printed."""
_READ_WHOLE: Final = 400
"""Lines at the head that are all read closely: they tell the kind of input, the engine and its processes."""
_ERROR = re.compile(
    r"(?:\[ *[\d.]+\] )?NVRM: Xid \([^)]*\): (?!(?:45|63|154)\b)\d|.{0,24}\bWarning {2,}(?!Unhealthy\b|BackOff\b)[A-Z]\w+ {2,}|"
    r"(?:[\w./ -]{0,40}: )?(?:[Ee]rror|ERROR|[Ff]atal|FATAL|panic)(?:\[\w+\])?: |[\w.]{0,120}(?:Error|Exception)(?:\([\w.]+\))?: \S"
)
"""An error in words, by no logger; an exception whose traceback is not here."""
_FILE = re.compile(r'(?:(?:site|dist)-packages/|vllm/(?=vllm/)|(?=vllm/)|(?<=/)(?=[^/]+"))([^"]+)"')
"""The file of a frame, from its package on."""
_TEARDOWN = frozenset({
    ErrorClass.ENGINE_CODE_BUG,
    ErrorClass.PROCESS_CRASHED_NATIVE,
    ErrorClass.GPU_KERNEL_FAULT,
    ErrorClass.NCCL_INIT_FAILED,
    ErrorClass.RENDEZVOUS_FAILED,
})  # fmt: skip
_LEVELS = {"DEBUG": 0, "INFO": 1, "WARNING": 2, "ERROR": 3, "": 3}
_NEEDED = {"info": 1, "warning": 2, "error": 3}


def _of_a_stop(signature: Signature) -> bool:
    """Whether a process that is being torn down may print it."""
    return signature.generic and signature.error_class in _TEARDOWN


class Analyser:
    """Finds the first failure; feed it the lines of one launch (or of several, one after another)."""

    def __init__(self, catalogue: Catalogue, *, exit_code: int | None = None, oom_killed: bool | None = None) -> None:
        self._catalogue = catalogue
        self._matcher = Matcher.of(catalogue)
        self._exit_code = exit_code
        self._oom_killed = oom_killed
        self._no = 0
        self._blocks = Blocks()
        self._progress = Progress()
        self._kind = KindDetector()
        self._engine = EngineReader()
        self._candidates: list[Candidate] = []
        self._warnings: list[tuple[int, str]] = []
        self._repeats: dict[str, int] = {}
        self._hidden: set[str] = set()
        self._live: str | None = None
        self._settled: Finding | None = None
        self._cache = CacheEvidence()
        self._tail = Tail(_TAIL)
        self._numbering = Numbering()
        self._skims = False
        self._phase = Phase.BEGINNING

    @property
    def live_root(self) -> str | None:
        """Text of the first fatal line, as soon as one was seen; None before."""
        return self._live

    @property
    def reached(self) -> Stage:
        """Last stage seen complete."""
        return self._progress.reached

    @property
    def came_up(self) -> bool:
        """Whether the server said that it is ready."""
        return self._progress.ready_no is not None

    @property
    def current_stage(self) -> Stage:
        """Stage being worked on."""
        return self._progress.current

    def feed(self, line: str | bytes) -> None:
        """Take one line, ended by LF or the end of the input; any bytes are fine."""
        self._no += 1
        if self._settled is not None:
            return  # an earlier launch failed and is the answer
        self._tail.add(line)
        if not self._skims or self._matcher.skimmer.may_tell(line, self._phase):
            self._read(line)

    def feed_block(self, block: bytes) -> None:
        """Take many lines at once, each ended by LF but for the last of the input: the same answer, sooner."""
        sighted = self._matcher.skimmer.sighted(block)
        at, end = 0, len(block)
        self._tail.enter(block)
        while at < end and self._settled is None:
            if self._skims and (near := sighted.next_line(at, self._phase)) > at:
                self._no += _lines_in(block, at, near)
                at = near
                self._tail.reach(at)
                continue
            begin, at = at, block.find(b"\n", at) + 1 or end
            self._no += 1
            self._tail.reach(at)
            self._read(block[begin:at])
        self._no += _lines_in(block, at, end)
        self._tail.leave()

    def _read(self, line: str | bytes) -> None:
        if self._no == 1 and (told := read_first_line(line)) is not None:
            self._exit_code = told.exit_code if self._exit_code is None else self._exit_code
            self._oom_killed = told.oom_killed if self._oom_killed is None else self._oom_killed
            return
        read = read_line(self._no, self._numbering.without(self._no, line))
        if " pid=" in read.text and len(several := records(read.text)) > 1:
            self._take(read._replace(text=several[0]))
            for record in several[1:]:
                self._take(read_line(self._no, record))
        elif "\n" not in read.text:
            self._take(read)
        else:
            for piece in read.text.split("\n"):
                self._take(read._replace(text=piece.rstrip()))
        progress = self._progress
        if progress.stopping_no is not None:
            self._tail.close()
        if progress.current is Stage.CONTAINER_INIT:
            self._phase = Phase.BEGINNING
        elif progress.ended_no is not None:
            self._phase = Phase.ENDED
        elif progress.served_no is not None:
            self._phase = Phase.SERVING
        else:
            self._phase = Phase.STARTING
        self._skims = self._no > _READ_WHOLE and not self._blocks.any_open and self._kind.certain

    def _take(self, read: Line) -> None:
        if self._no <= _READ_WHOLE or not self._kind.certain:
            self._kind.feed(self._no, read.text, logged=read.file.endswith(".py"))
        self._engine.feed(read.text, read.process)
        self._cache.feed(self._no, read.text)
        if read.process:
            self._progress.seen(read.process)
        step = self._blocks.feed(read)
        if step.kind == "frame":
            return
        if step.kind in {"raised", "message"} and step.block is not None:
            self._in_block(read, step.block, step.block.raised[-1], ended=step.kind == "raised")
            return
        self._ordinary(read)

    def finish(self, *, exit_code: int | None = None, oom_killed: bool | None = None) -> Finding:
        """Choose the first failure; may be called once more lines were fed, again."""
        if self._settled is not None:
            return self._settled.model_copy(update={"lines": self._no})
        return self._choose(
            self._exit_code if exit_code is None else exit_code, self._oom_killed if oom_killed is None else oom_killed
        )

    def _choose(self, exit_code: int | None, oom_killed: bool | None) -> Finding:
        material = Material(
            catalogue=self._catalogue,
            candidates=tuple(self._candidates),
            warnings=tuple(self._warnings),
            progress=self._progress,
            exit_code=exit_code,
            oom_killed=oom_killed,
            input_kind=self._kind.kind,
            document=self._kind.document(),
            cache=self._cache,
            engine=EngineFacts(
                version=self._engine.version,
                frontend=self._engine.frontend,
                processes=self._engine.processes,
                arguments=self._engine.arguments,
            ),
            lines=self._no,
            tail=self._tail.lines(),
        )
        return choose(material)

    # ---- lines

    def _ordinary(self, line: Line) -> None:
        text = line.text
        if not text.strip():
            return
        found = self._matcher.match(text, self._kind.kind)
        if found.marker is not None:
            if self._begins_another(found.marker, line):
                self._next_launch()
            self._progress.take(found.marker, line.no)
        self._keep_for_comparison(line, teardown=found.benign is not None and found.benign.teardown)
        if found.benign is not None:
            if found.benign.hides_block:
                self._hidden.add(line.process)
            if found.benign.teardown and self._progress.stopping_no is not None:
                self._progress.ended_no = self._progress.ended_no or line.no
            return
        if found.signature is not None and self._often_enough(found.signature):
            hint = _LEVELS.get(line.level, 3) < _NEEDED[found.signature.level]
            self._add(line, found, None, None, hint=hint)
        elif found.derived is not None and self._often_enough(found.derived):
            self._add(line, found, None, None)
        elif line.level == "ERROR" or _ERROR.match(text):
            self._add(line, found, None, None, weak=True)

    def _in_block(self, line: Line, block: Block, raised: Raised, *, ended: bool) -> None:
        if ended and len(block.raised) == 1 and block.process in self._hidden:
            self._hidden.discard(block.process)
            block.hidden = True
        if block.hidden:
            return
        found = self._matcher.match(line.text, self._kind.kind)
        if found.benign is not None:
            if ended:
                block.hidden = found.benign.hides_block or found.benign.teardown
            return
        if ended and (found.signature is None or found.signature.generic):
            found = self._with_stack(line.text, raised, found)
        if ended or found.signature is not None:
            self._add(line, found, block, raised, weak=False)

    def _with_stack(self, text: str, raised: Raised, found: Match) -> Match:
        """Ask again with the functions that raised it: a bare text may be told by where it came from."""
        names = [frame.rsplit(" in ", 1)[-1] for frame in raised.frames[-4:] if " in " in frame]
        if not names:
            return found
        file = _FILE.search(raised.frames[-1])
        told = self._matcher.match(
            f"{text} [raised in {' '.join(names)}] [from {'' if file is None else file[1]}]", self._kind.kind
        )
        bare = found.signature is None or found.signature.error_class is ErrorClass.ENGINE_CODE_BUG
        return told if told.signature is not None and bare else found

    def _often_enough(self, signature: Signature | Derived) -> bool:
        count = self._repeats[signature.id] = self._repeats.get(signature.id, 0) + 1
        return count == signature.repeats if signature.repeats > 1 else True

    def _add(
        self,
        line: Line,
        found: Match,
        block: Block | None,
        raised: Raised | None,
        *,
        weak: bool = False,
        hint: bool = False,
    ) -> None:
        if len(self._candidates) >= _MOST_CANDIDATES:
            return
        if self._progress.ended_no is not None and found.signature is not None and not _of_a_stop(found.signature):
            self._next_launch()
        progress = self._progress
        told = self._told_by_stack(raised)
        candidate = Candidate(
            no=line.no,
            text=line.text.strip(),
            process=line.process,
            signature=found.signature,
            derived=None if found.signature is not None else found.derived,
            block=block,
            raised=raised,
            observed=progress.current if told is None else told,
            reached=progress.reached,
            after_ready=progress.ready_no is not None,
            after_served=progress.served_no is not None,
            after_stop=progress.stopping_no is not None,
            after_end=progress.ended_no is not None,
            weak=weak,
            hint=hint,
            blind=told is None and not progress.began,
        )
        self._candidates.append(candidate)
        fatal = not hint and not weak and candidate.derived is None and not candidate.after_stop
        if fatal and self._live is None and (candidate.signature is None or not candidate.signature.degrades):
            self._live = candidate.text

    def _told_by_stack(self, raised: Raised | None) -> Stage | None:
        """Take the stage from the deepest function that tells one; a step of the engine is also run to warm it up."""
        if raised is None or self._progress.ready_no is not None:
            return None
        told = [frame.stage for text in reversed(raised.frames) if (frame := self._matcher.frame(text)) is not None]
        return next((stage for stage in told if stage is not Stage.SERVING), told[0] if told else None)

    # ---- several launches in one input

    def _begins_another(self, marker: Marker, line: Line) -> bool:
        if self._progress.ended_no is not None:
            return marker.event in {"launch", "begin", "progress", "complete", "ready"}
        if self._progress.ready_no is not None and marker.stage is Stage.CONTAINER_INIT and marker.event != "launch":
            return True  # an engine that is ready does not begin again
        return marker.event == "launch" and self._progress.began and self._launch_over(line)

    def _launch_over(self, line: Line) -> bool:
        progress = self._progress
        if progress.ended_no is not None or progress.stopping_no is not None:
            return True
        return any(c.tells and not c.hint for c in self._candidates) or (
            progress.served_no is not None and line.no > progress.served_no
        )

    def _next_launch(self) -> None:
        """Keep the first launch that failed; one that went well makes room for the next."""
        found = self._choose(None, None)
        if self._settled is None and found.root_line is not None:
            self._settled = found
        self._progress = Progress()
        self._tail.clear()
        if self._settled is None:
            self._candidates.clear()
            self._warnings.clear()
            self._repeats.clear()
            self._live = None

    # ---- what the score compares

    def _keep_for_comparison(self, line: Line, *, teardown: bool) -> None:
        if self._progress.stopping_no is not None or line.level != "WARNING" or teardown:
            return
        if len(self._warnings) < _MOST_WARNINGS:
            self._warnings.append((line.no, line.text))


def _lines_in(block: bytes, start: int, stop: int) -> int:
    """Count the lines between two places where lines begin, or the block ends."""
    open_end = stop == len(block) > start and not block.endswith(b"\n")
    return block.count(b"\n", start, stop) + open_end


def analyse(
    lines: Iterable[str | bytes], catalogue: Catalogue, *, exit_code: int | None = None, oom_killed: bool | None = None
) -> Finding:
    """Find the first failure in lines that are cut at LF only."""
    analyser = Analyser(catalogue, exit_code=exit_code, oom_killed=oom_killed)
    for line in lines:
        analyser.feed(line)
    return analyser.finish()


def analyse_blocks(
    blocks: Iterable[bytes], catalogue: Catalogue, *, exit_code: int | None = None, oom_killed: bool | None = None
) -> Finding:
    """Find the first failure in blocks of whole lines (`whole_lines` makes them)."""
    analyser = Analyser(catalogue, exit_code=exit_code, oom_killed=oom_killed)
    for block in blocks:
        analyser.feed_block(block)
    return analyser.finish()


def analyse_text(
    text: str | bytes, catalogue: Catalogue, *, exit_code: int | None = None, oom_killed: bool | None = None
) -> Finding:
    """Find the first failure in a whole text."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return analyse_blocks([data], catalogue, exit_code=exit_code, oom_killed=oom_killed)
