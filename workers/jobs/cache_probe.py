"""The job `cache_probe`: the requests of a prefix-cache probe, token-exact and salted, with the counters around each (R9).

How it is sized and what it proves is `playbooks.judging.prefix_cache`; here it is only sent and recorded.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from playbooks.judging.baseline import FixedSample
from playbooks.judging.cache_evidence import CacheEvidence
from playbooks.judging.cache_facts import CacheConfig, CacheProbeFacts, CacheShot, Scrape
from playbooks.judging.prefix_cache import ANSWER_TOKENS, Plan, config_of, plan
from playbooks.messages import CacheProbeParams, JobRequest, RequestRun
from playbooks.reading.transcript import read_line
from workers.errors import UnusableRequest
from workers.jobs.deps import Deps, Done
from workers.jobs.held_target import held_target
from workers.jobs.redacting import clean
from workers.ports import Control, EngineHttp

Name = Literal["A1", "A2", "A3", "A4", "N1", "N2"]
Salt = Literal["own", "other", "none"]
_IDLE_WAIT_S = 3.0
_IDLE_LOOK_S = 0.1
_COUNTED_WAIT_S = 2.0
"""Counters follow the answer by a moment."""
_LOG_HEAD_BYTES = 4 << 20
WORDS = [
    "river",
    "stone",
    "window",
    "paper",
    "garden",
    "silver",
    "morning",
    "yellow",
    "bridge",
    "market",
    "winter",
    "summer",
    "engine",
    "letter",
    "doctor",
    "village",
    "bottle",
    "castle",
    "forest",
    "island",
    "mountain",
    "candle",
    "mirror",
    "ladder",
    "pencil",
    "circle",
    "thunder",
    "harbor",
    "planet",
    "kitchen",
]
"""Plain words that prompts are made of; the same in each probe."""
_MOST_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a probe is sent."""

    url: str
    headers: Mapping[str, str]
    model: str | None


def cache_probe(job: JobRequest, deps: Deps, control: Control) -> Done:
    """Probe the held engine of `target_attempt`.

    Raises:
        NotHeld: no engine of that attempt is held here.
        JobCancelled: called off between two requests.
    """
    try:
        params = CacheProbeParams.model_validate(job.params)
    except ValueError as error:
        raise UnusableRequest(f"cache probe parameters: {error}") from error
    target = held_target(job, deps, params.target_attempt)
    where = Endpoint(target.endpoint, target.headers, deps.http.model_name(target.endpoint, headers=target.headers))
    probe = Probe(
        deps.http,
        where,
        seed=job.job_id,
        timeout_s=params.timeout_s,
        sleep=deps.clock.sleep,
        monotonic=deps.clock.monotonic,
        log=Path(target.ref.log),
        check=control.check,
        tell=lambda note: control.progress(None, note),
    )
    facts = probe.run(f"attempt {params.target_attempt}", rounds=min(params.rounds, _MOST_ROUNDS))
    facts = facts.model_copy(
        update={"engine_alive": target.lives(), "shots": tuple(_clean(shot, target.secrets) for shot in facts.shots)}
    )
    for name, text in probe.evidence(facts):
        deps.spool.save_text(
            job.job_id,
            name,
            text,
            media_type="application/json" if name.endswith(".json") else "text/plain",
            secrets=target.secrets,
        )
    if not facts.engine_alive:
        deps.spool.save_log(job.job_id, "engine.log", Path(target.ref.log), secrets=target.secrets)
    return Done(facts)


class Probe:
    """One probe of one endpoint."""

    def __init__(
        self,
        http: EngineHttp,
        where: Endpoint,
        *,
        seed: str,
        timeout_s: float,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        log: Path | None = None,
        check: Callable[[], None] = lambda: None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._http = http
        self._where = where
        self._seed = seed
        self._timeout_s = timeout_s
        self._sleep = sleep
        self._monotonic = monotonic
        self._log = log
        self._check = check
        self._tell = tell
        self._raw: list[tuple[str, str]] = []
        self._salted = True

    def run(self, target: str, *, rounds: int) -> CacheProbeFacts:
        """Read the configuration, size the prompts, and send the rounds; stops at the first request that does not complete."""
        config = self._config()
        facts = CacheProbeFacts(target=target, config=config)
        if config.enabled is False:
            return facts
        sized = plan(config)
        if isinstance(sized, str):
            return facts.model_copy(update={"why_not": sized})
        pool = self._pool()
        shots: list[CacheShot] = []
        for number in range(1, rounds + 1):
            for shot in self._round(number, sized, pool):
                shots.append(shot)
                if not shot.run.complete:
                    break
            if not shots or not shots[-1].run.complete:
                break
        return facts.model_copy(
            update={
                "prefix_tokens": sized.prefix,
                "tail_tokens": sized.tail,
                "expected_repeat": sized.expected_repeat if pool else None,
                "expected_prefix": sized.expected_prefix if pool else None,
                "token_exact": bool(pool),
                "salted": self._salted,
                "shots": tuple(shots),
            }
        )

    def evidence(self, facts: CacheProbeFacts) -> Sequence[tuple[str, bytes]]:
        """Return the files: the whole record, and the scrapes as they came."""
        scrapes = "\n".join(f"# ---- {name}\n{text}" for name, text in self._raw)
        record = json.dumps(facts.model_dump(mode="json"), indent=1, ensure_ascii=False)
        return (("cache-probe.json", record.encode()), ("metrics.txt", scrapes.encode()))

    def _config(self) -> CacheConfig:
        scrape, labels = self._scrape("before the probe")
        told = self._from_log()
        length = self._http.model_length(self._where.url, headers=self._where.headers)
        return config_of(labels, log_block=told.block, max_len=length or told.max_len, engines=max(1, scrape.engines))

    def _from_log(self) -> CacheEvidence:
        found = CacheEvidence()
        if self._log is not None and self._log.exists():
            with self._log.open("rb") as log:
                for no, line in enumerate(log.read(_LOG_HEAD_BYTES).split(b"\n"), 1):
                    found.feed(no, read_line(no, line).text)
        return found

    def _pool(self) -> list[int]:
        """Return token ids that this model's ordinary text has; empty where it cannot be asked: text is sent then."""
        found = self._http.tokens(
            self._where.url, " ".join(WORDS), model=self._where.model, headers=self._where.headers
        )
        return sorted(set(found)) if found and len(set(found)) > len(WORDS) // 2 else []

    def _round(self, number: int, sized: Plan, pool: list[int]) -> Sequence[CacheShot]:
        dice = random.Random(f"{self._seed}/{number}")
        prefix = [dice.choice(pool or range(len(WORDS))) for _ in range(sized.prefix)]
        tails = [[dice.choice(pool or range(len(WORDS))) for _ in range(sized.tail)] for _ in range(3)]
        choices = pool or list(range(len(WORDS)))
        for at, tail in enumerate(tails):
            tail[0] = choices[(choices.index(tails[0][0]) + at) % len(choices)]  # they part at their first token
        other = [choices[(choices.index(prefix[0]) + 1) % len(choices)], *prefix[1:]]
        asked: list[tuple[Name, list[int], Salt]] = [
            ("A1", prefix + tails[0], "own"),
            ("A2", prefix + tails[0], "own"),
            ("A3", prefix + tails[1], "own"),
            ("A4", prefix + tails[2], "own"),
            ("N1", prefix + tails[2], "other"),
            ("N2", other + tails[2], "own"),
        ]
        shots: list[CacheShot] = []
        for name, prompt, salt in asked:
            if name == "N1" and not self._salted:
                continue
            self._check()
            self._tell(f"cache probe, round {number}: {name}, {len(prompt)} tokens")
            shots.append(self._shoot(name, number, prompt, salt, exact=bool(pool)))
            if not shots[-1].run.complete:
                break
        return shots

    def _shoot(self, name: Name, number: int, prompt: list[int], salt: Salt, *, exact: bool) -> CacheShot:
        before = self._idle(f"before {name} of round {number}")
        run = self._ask(name, number, prompt, salt, exact=exact)
        if self._salted and name == "A1" and number == 1 and _refuses_salt(run):
            self._salted = False
            before = self._idle(f"before {name} of round {number}, without salt")
            run = self._ask(name, number, prompt, salt, exact=exact)
        after = self._counted(f"after {name} of round {number}", before)
        return CacheShot(
            name=name,
            round=number,
            tokens=len(prompt) if exact else run.prompt_tokens or 0,
            salt=salt if self._salted else "none",
            run=run,
            before=before,
            after=after,
        )

    def _ask(self, name: Name, number: int, prompt: list[int], salt: Salt, *, exact: bool) -> RequestRun:
        body: dict[str, object] = {
            "prompt": prompt if exact else " ".join(WORDS[index] for index in prompt),
            "max_tokens": ANSWER_TOKENS,
            "temperature": 0,
            "seed": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._salted:
            body["cache_salt"] = f"baseline-{self._seed}-{number}-{salt}"
        sample = FixedSample(path="/v1/completions", body=json.dumps(body))
        n = number * 10 + ("A1", "A2", "A3", "A4", "N1", "N2").index(name)
        return self._http.ask(
            self._where.url,
            sample,
            n=n,
            timeout_s=self._timeout_s,
            model=self._where.model,
            headers=self._where.headers,
        ).run

    def _idle(self, label: str) -> Scrape:
        """Wait a moment until nobody is in the engine; whoever stays is in the record."""
        end = self._monotonic() + _IDLE_WAIT_S
        while True:
            scrape, _ = self._scrape(label)
            if not (scrape.running or 0) + (scrape.waiting or 0) or self._monotonic() >= end:
                return scrape
            self._sleep(_IDLE_LOOK_S)

    def _counted(self, label: str, before: Scrape) -> Scrape:
        """Scrape once the request is counted, or after a while without."""
        end = self._monotonic() + _COUNTED_WAIT_S
        while True:
            scrape, _ = self._scrape(label)
            counted = scrape.computed is None or before.computed is None or scrape.computed != before.computed
            idle = not (scrape.running or 0) + (scrape.waiting or 0)
            if (counted and idle) or self._monotonic() >= end:
                return scrape
            self._sleep(_IDLE_LOOK_S)

    def _scrape(self, label: str) -> tuple[Scrape, dict[str, str]]:
        text = self._http.metrics(self._where.url, headers=self._where.headers)
        if text is not None:
            if self._raw and self._raw[-1][0] == label:
                self._raw.pop()
            self._raw.append((label, _of_interest(text)))
        return self._http.read_metrics(text or "") or (Scrape(), {})


def _of_interest(text: str) -> str:
    """Keep the lines a probe is judged by; a whole scrape around each request would be megabytes of histograms."""
    words = (
        "prefix_cache",
        "prompt_tokens",
        "preemptions",
        "num_requests",
        "cache_usage",
        "cache_config",
        "process_start_time",
    )
    return "".join(
        f"{line}\n"
        for line in text.splitlines()
        if not line.startswith("#") and any(word in line for word in words) and "_bucket" not in line
    )


def _refuses_salt(run: RequestRun) -> bool:
    return run.http_status in {400, 422} and "salt" in (run.error or "").lower()


def _clean(shot: CacheShot, secrets: Mapping[str, str]) -> CacheShot:
    head = {
        "output_head": clean(shot.run.output_head, secrets),
        "error": clean(shot.run.error, secrets) if shot.run.error else None,
    }
    return shot.model_copy(update={"run": shot.run.model_copy(update=head)})
