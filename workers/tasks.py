"""The one Celery task: hands a delivery over and says whether it was a second one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.exceptions import Ignore

from playbooks.messages import TASK_JOB
from workers.jobs.running import Delivered

Run = Callable[[dict[str, Any]], Delivered]


def register(app: Celery, run: Run) -> None:
    """Bind the task to an app. `run` takes the envelope as far as it goes, and never raises for a bad one."""

    @app.task(name=TASK_JOB, shared=False, ignore_result=True, acks_late=True)  # type: ignore[untyped-decorator]
    def job(envelope: dict[str, Any]) -> None:
        if run(envelope) is not Delivered.RAN:
            raise Ignore
