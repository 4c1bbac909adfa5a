"""What a worker does between jobs: says hello, keeps held engines, reports what was cut, hands over what was left.

Runs in the process that outlives the jobs; each duty on its own beat, so that a bot that does not answer delays only the hello.
"""

from __future__ import annotations

import threading

import structlog

from playbooks.messages import NodeHello
from playbooks.reading.fields import indexes, value_of
from workers.errors import BotError, EngineUnavailable
from workers.jobs.deps import Deps
from workers.jobs.holding import end_engine, keep, lost_and_ended
from workers.jobs.reporting import deliver, deliver_rest
from workers.jobs.running import report_cut
from workers.jobs.stopping import sweep_node
from workers.journal import end_of

HELLO_S = 30.0
KEEP_S = 1.0
DELIVER_S = 5.0

log = structlog.get_logger()


class Duties:
    """The duties of one worker, in threads of their own."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._ended = threading.Event()
        self._news = threading.Event()
        self._gpus: tuple[str, ...] | None = None
        self._threads = [
            threading.Thread(target=loop, name=name, daemon=True)
            for name, loop in (
                ("hello", self._hello_loop),
                ("keeper", self._keep_loop),
                ("deliver", self._deliver_loop),
            )
        ]

    def start(self) -> None:
        """Clean up after an earlier worker, then begin."""
        report_cut(self._deps)
        swept = sweep_node(self._deps)
        if swept.ended or swept.failed:
            log.warning("swept at start", ended=swept.ended, failed=swept.failed)
        for thread in self._threads:
            thread.start()

    def close(self, *, stop_held: bool) -> None:
        """End the duties, after the job processes have ended: what was cut is reported, what nobody holds is swept."""
        self._ended.set()
        self._news.set()
        for thread in self._threads:
            thread.join(timeout=5)
        report_cut(self._deps)
        if stop_held:
            for row in self._deps.journal.held():
                end_engine(self._deps, row, how="stopped", detail="the worker ended")
        sweep_node(self._deps)
        self.hello()

    def hello(self) -> bool:
        """Say hello once; True when it was answered. Ends of held engines are told until then."""
        deps = self._deps
        lost, rows = lost_and_ended(deps)
        message = NodeHello(
            node=deps.node,
            version=deps.version,
            catalogue=deps.catalogue().digest,
            policy_sha256=deps.policy_sha256,
            policy=deps.policy.summary() if deps.policy is not None else {},
            gpus=self._gpu_names(),
            held=tuple(row.held for row in deps.journal.held() if row.held is not None),
            running=tuple(row.request.job_id for row in deps.journal.running()),
            lost=lost,
            lost_because={row.job_id: row.detail for row in rows if row.how == "died" and row.detail},
            ended=tuple(end for row in rows if (end := end_of(row)) is not None),
            at=deps.clock.now(),
        )
        try:
            reply = deps.bot.hello(message)
        except BotError as error:
            log.warning("hello not answered", why=str(error))
            return False
        if not reply.known:
            log.warning("the bot does not know this node", why=reply.detail)
        deps.journal.ends_told([row.job_id for row in rows])
        return True

    def _gpu_names(self) -> tuple[str, ...]:
        if self._gpus is None:
            facts = self._deps.gpus.read()
            self._gpus = tuple(
                str(value_of(facts, f"gpu.{index}.name") or f"GPU {index} (not readable)")
                for index in indexes(facts, "gpu")
            )
        return self._gpus

    def _hello_loop(self) -> None:
        while not self._ended.is_set():
            self._news.clear()
            answered = self.hello()
            self._news.wait(HELLO_S if answered else DELIVER_S)

    def _keep_loop(self) -> None:
        while not self._ended.wait(KEEP_S):
            try:
                if keep(self._deps):
                    self._news.set()
            except EngineUnavailable as error:
                log.warning("held engines not looked after", why=str(error))
            for report in report_cut(self._deps):
                deliver(report, self._deps, patience_s=1)

    def _deliver_loop(self) -> None:
        while not self._ended.wait(DELIVER_S):
            deliver_rest(self._deps)
