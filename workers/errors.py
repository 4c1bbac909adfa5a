"""Errors of the worker.

    WorkerError                      root of everything the worker raises on purpose
    ├── InvalidNodeSettings          environment, key file or data folder cannot be used
    ├── PolicyError                  the node owner's policy file
    │   ├── InvalidPolicy            the file cannot be read as a policy; file, place and expected form
    │   └── PolicyRefusal            the policy does not allow what was asked; names the rule
    ├── BotError                     the bot could not be told or asked
    │   ├── BotUnreachable           no answer
    │   └── BotRefused               an answer of 4xx, with the bot's reason
    ├── JobError                     a job could not find out; its report is `inconclusive`
    │   ├── EngineUnavailable        the container engine or the process table does not answer
    │   ├── NotHeld                  no held engine of that attempt is on this node
    │   ├── ProbeFailed              a probe did not come back with facts
    │   ├── TenantsChanged           a second attempt would run beside others on the GPUs than the first: paused
    │   └── UnusableRequest          the job's parameters do not make a job
    ├── JobCancelled                 somebody, or the worker's own end, called the job off
    └── StartFailed                  an engine did not start; its text is a finding of the first stage, never a failed job

A launch that fails is data: `StartFailed` never leaves the launch job. `docs/errors.md` shows the same tree.
"""

from __future__ import annotations


class WorkerError(Exception):
    """Root of everything the worker raises on purpose."""


class InvalidNodeSettings(WorkerError):
    """Environment, key file or data folder cannot be used; the message says which and how it should look."""


class PolicyError(WorkerError):
    """The node owner's policy file."""


class InvalidPolicy(PolicyError):
    """The file cannot be read as a policy; file, place and expected form."""


class PolicyRefusal(PolicyError):
    """The policy does not allow what was asked; `rule` names why."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(f"{message} (rule {rule})")
        self.rule = rule


class BotError(WorkerError):
    """The bot could not be told or asked."""


class BotUnreachable(BotError):
    """No answer."""


class BotRefused(BotError):
    """An answer of 4xx, with the bot's reason."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class JobError(WorkerError):
    """A job could not find out; its report is `inconclusive` with this text."""


class EngineUnavailable(JobError):
    """The container engine or the process table does not answer."""


class NotHeld(JobError):
    """No held engine of that attempt is on this node."""


class TenantsChanged(JobError):
    """Others use the GPUs now than at the attempt before."""


class ProbeFailed(JobError):
    """A probe did not come back with facts."""


class UnusableRequest(JobError):
    """The job's parameters do not make a job."""


class JobCancelled(WorkerError):
    """Somebody, or the worker's own end, called the job off; the text says who."""


class StartFailed(WorkerError):
    """An engine did not start; the text is the runtime's own. `exit_code` when it named one."""

    def __init__(self, message: str, *, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code
