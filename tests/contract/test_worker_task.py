"""The worker's Celery app: exactly the one task of the wire, JSON alone, no results, no remote control."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery.exceptions import Ignore

from playbooks.messages import TASK_JOB
from workers.app import VISIBILITY_TIMEOUT_S, celery_app
from workers.jobs.running import Delivered


def test_the_app_knows_one_task_and_settings_that_held_up(tmp_path: Path) -> None:
    app = celery_app("memory://", lambda _: Delivered.RAN, folder=tmp_path)
    assert [name for name in app.tasks if not name.startswith("celery.")] == [TASK_JOB]
    conf = app.conf
    assert conf.accept_content == ["json"]
    assert conf.task_acks_late
    assert not conf.task_reject_on_worker_lost
    assert not conf.worker_enable_remote_control
    assert conf.result_backend is None
    assert conf.broker_transport_options["visibility_timeout"] == VISIBILITY_TIMEOUT_S


@pytest.mark.parametrize("what", [one for one in Delivered if one is not Delivered.RAN])
def test_a_delivery_that_did_not_run_leaves_no_success_behind(tmp_path: Path, what: Delivered) -> None:
    seen: list[dict[str, object]] = []

    def run(envelope: dict[str, object]) -> Delivered:
        seen.append(envelope)
        return what

    app = celery_app("memory://", run, folder=tmp_path)
    with pytest.raises(Ignore):
        app.tasks[TASK_JOB].run({"schema": 1})
    assert seen == [{"schema": 1}]
