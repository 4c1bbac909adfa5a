"""The job `ladder`: rungs of requests that grow in one thing at a time, against the held engine of an attempt (R7.2).

Bounded in time, requests and tokens. Which rungs there are, and what the first that fails says, is `playbooks.judging.ladder`.
"""

from __future__ import annotations

import json
import queue
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path

from playbooks.judging.baseline import FixedSample
from playbooks.judging.cache_facts import Scrape
from playbooks.judging.ladder import plan, told
from playbooks.judging.ladder_facts import Climbed, Ended, LadderFacts, Rung, RungTry
from playbooks.messages import JobRequest, LadderParams, RequestRun
from workers.errors import UnusableRequest
from workers.jobs.cache_probe import WORDS, Endpoint
from workers.jobs.deps import Deps, Done
from workers.jobs.held_target import HeldTarget, held_target
from workers.jobs.redacting import clean
from workers.ports import Control, MemoryWatch

_LOOK_S = 0.2
"""Between two looks at the engine's process, at the counters and at a cancel while requests are under way."""
_DYING_S = 0.5
"""A dying engine breaks its connections a moment before its process is gone."""
_TRIES = 2


def ladder(job: JobRequest, deps: Deps, control: Control) -> Done:
    """Climb until a rung fails twice, the engine dies, or a bound is reached.

    Raises:
        NotHeld: no engine of that attempt is held here.
        JobCancelled: called off; requests under way end by their own time.
    """
    try:
        params = LadderParams.model_validate(job.params)
    except ValueError as error:
        raise UnusableRequest(f"ladder parameters: {error}") from error
    target = held_target(job, deps, params.target_attempt)
    climb = _Climb(job.job_id, params, target, deps, control)
    facts = climb.run()
    if not facts.engine_alive:
        log = deps.spool.save_log(job.job_id, "engine.log", Path(target.ref.log), secrets=target.secrets)
        facts = facts.model_copy(update={"log_sha256": log.sha256})
    for name, text in (("ladder.json", facts.model_dump_json(indent=1)), ("metrics.txt", climb.scraped())):
        media_type = "application/json" if name.endswith(".json") else "text/plain"
        deps.spool.save_text(job.job_id, name, text.encode(), media_type=media_type, secrets=target.secrets)
    return Done(facts)


@dataclass(slots=True)
class _Seen:
    """Peaks while a try runs."""

    waiting: int | None = None
    kv_permille: int | None = None

    def take(self, scrape: Scrape) -> None:
        self.waiting = _larger(self.waiting, scrape.waiting)
        self.kv_permille = _larger(self.kv_permille, scrape.kv_permille)


@dataclass(slots=True)
class _Climb:
    """One ladder under way."""

    job_id: str
    params: LadderParams
    target: HeldTarget
    deps: Deps
    control: Control
    _raw: list[tuple[str, str]] = field(default_factory=list)
    _asked: int = 0

    def run(self) -> LadderFacts:
        where = self._where()
        http = self.deps.http
        length = http.model_length(where.url, headers=where.headers)
        found = http.tokens(where.url, " ".join(WORDS), model=where.model, headers=where.headers)
        pool = sorted(set(found or ()))
        rungs = plan(
            length,
            longest_input=self.params.longest_input,
            longest_output=self.params.longest_output,
            most_at_once=self.params.most_at_once,
        )
        memory = self.deps.gpus.watch()
        try:
            climbed, ended = self._climb(where, rungs, pool, memory)
        finally:
            memory.close()
        return LadderFacts(
            target=f"attempt {self.params.target_attempt}",
            planned=len(rungs),
            rungs=tuple(climbed),
            ended=ended,
            token_exact=bool(pool),
            max_len=length,
            engine_alive=self.target.lives(),
        )

    def scraped(self) -> str:
        """Return the scrapes around the tries, as they came."""
        return "\n".join(f"# ---- {name}\n{text}" for name, text in self._raw)

    def _where(self) -> Endpoint:
        target = self.target
        return Endpoint(
            target.endpoint, target.headers, self.deps.http.model_name(target.endpoint, headers=target.headers)
        )

    def _climb(
        self, where: Endpoint, rungs: tuple[Rung, ...], pool: list[int], memory: MemoryWatch
    ) -> tuple[list[Climbed], Ended]:
        end = self.deps.clock.monotonic() + self.params.total_s
        left = self.params.most_tokens
        climbed: list[Climbed] = []
        for number, rung in enumerate(rungs, 1):
            tries: list[RungTry] = []
            while len(tries) < _TRIES and not (tries and tries[-1].held):
                bound = self._bound(end, left - rung.tokens)
                if bound is not None:
                    return [*climbed, *_tried(rung, tries)], bound
                left -= rung.tokens
                self.control.progress(None, f"ladder {number}/{len(rungs)}: {told(rung)}, try {len(tries) + 1}")
                tries.append(
                    self._try(where, rung, pool, memory, label=f"rung {number}, try {len(tries) + 1}", end=end)
                )
                if not tries[-1].alive:
                    return [*climbed, *_tried(rung, tries)], Ended.DIED
            climbed += _tried(rung, tries)
            if not tries[-1].held:
                return climbed, Ended.TIME if self.deps.clock.monotonic() >= end else Ended.FAILED_TWICE
        return climbed, Ended.TOP

    def _bound(self, end: float, left: int) -> Ended | None:
        if self.deps.clock.monotonic() >= end:
            return Ended.TIME
        return Ended.TOKENS if left < 0 else None

    def _try(
        self, where: Endpoint, rung: Rung, pool: list[int], memory: MemoryWatch, *, label: str, end: float
    ) -> RungTry:
        clock = self.deps.clock
        before = self._scrape(f"before {label}")
        taken = len(memory.samples())
        wanted: queue.SimpleQueue[tuple[int, FixedSample]] = queue.SimpleQueue()
        for _ in range(rung.requests):
            self._asked += 1
            wanted.put((self._asked, _sample(rung, pool, seed=f"{self.job_id}/{self._asked}")))
        runs: list[RequestRun] = []
        timeout_s = max(1.0, min(self.params.timeout_s, end - clock.monotonic()))
        stop = threading.Event()
        begun = clock.monotonic()
        hands = [
            threading.Thread(target=self._ask, args=(where, wanted, runs, timeout_s, stop), daemon=True)
            for _ in range(rung.concurrency)
        ]
        for hand in hands:
            hand.start()
        seen, alive = _Seen(), True
        try:
            while alive and any(hand.is_alive() for hand in hands):
                self.control.check()
                seen.take(self._counters()[0])
                alive = self.target.lives()
                clock.sleep(_LOOK_S if any(hand.is_alive() for hand in hands) else 0)
        finally:
            stop.set()
        duration_ms = round((clock.monotonic() - begun) * 1000)
        made = sorted(runs, key=lambda run: run.n)
        if alive and not all(run.complete for run in made):
            clock.sleep(_DYING_S)
            alive = self.target.lives()
        return RungTry(
            runs=tuple(self._clean(run) for run in made),
            duration_ms=duration_ms,
            before=before,
            after=self._scrape(f"after {label}"),
            waiting_peak=seen.waiting,
            kv_peak_permille=seen.kv_permille,
            memory_peak_bytes=max((used for _, used in memory.samples()[max(0, taken - 1) :]), default=None),
            alive=alive,
        )

    def _ask(
        self,
        where: Endpoint,
        wanted: queue.SimpleQueue[tuple[int, FixedSample]],
        runs: list[RequestRun],
        timeout_s: float,
        stop: threading.Event,
    ) -> None:
        """Send what is wanted, one after the other: one pair of hands of a rung."""
        while not stop.is_set():
            try:
                n, sample = wanted.get_nowait()
            except queue.Empty:
                return
            answer = self.deps.http.ask(
                where.url, sample, n=n, timeout_s=timeout_s, model=where.model, headers=where.headers
            )
            if not stop.is_set():
                runs.append(answer.run)

    def _counters(self) -> tuple[Scrape, str]:
        text = self.deps.http.metrics(self.target.endpoint, headers=self.target.headers) or ""
        read = self.deps.http.read_metrics(text)
        return (read[0] if read is not None else Scrape()), text

    def _scrape(self, label: str) -> Scrape:
        scrape, text = self._counters()
        kept = [line for line in text.splitlines() if line.startswith("vllm:") and "_bucket" not in line]
        self._raw.append((label, "".join(f"{line}\n" for line in kept)))
        return scrape

    def _clean(self, run: RequestRun) -> RequestRun:
        return run.model_copy(
            update={
                "output_head": clean(run.output_head, self.target.secrets),
                "error": clean(run.error, self.target.secrets) if run.error else None,
            }
        )


def _sample(rung: Rung, pool: list[int], *, seed: str) -> FixedSample:
    """Make a request of its own: no two share a beginning, so that no cache makes a rung lighter."""
    dice = random.Random(seed)
    prompt = [dice.choice(pool or range(len(WORDS))) for _ in range(rung.input_tokens)]
    body = {
        "prompt": prompt if pool else " ".join(WORDS[index] for index in prompt),
        "max_tokens": rung.output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "seed": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return FixedSample(path="/v1/completions", body=json.dumps(body))


def _tried(rung: Rung, tries: list[RungTry]) -> list[Climbed]:
    return [Climbed(rung=rung, tries=tuple(tries))] if tries else []


def _larger(one: int | None, other: int | None) -> int | None:
    return max((value for value in (one, other) if value is not None), default=None)
