"""The nodes' HTTP interface, with real envelopes: who may say what, and how everything else is refused in words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.errors import StoreUnavailable
from bot.flows.person_tokens import create_token, revoke_token
from bot.flows.request_job import Wish, request_job
from bot.ports import Job
from playbooks.evidence.signing import SigningKey
from playbooks.messages import (
    ArtifactOffer,
    Claim,
    ClaimReply,
    Heartbeat,
    HeartbeatReply,
    HelloReply,
    IncidentQuery,
    NodeHello,
    Progress,
)
from playbooks.vocabulary import JobKind
from tests.support.bot_http import Http, serving
from tests.support.bot_services import NODE, RESPONDER, TestBot, a_baseline, make_bot, open_case, say_hello


@pytest.fixture
def bot(tmp_path: Path) -> TestBot:
    return make_bot(tmp_path)


@pytest.fixture
async def http(bot: TestBot, tmp_path: Path) -> AsyncIterator[Http]:
    async with serving(bot, tmp_path, metrics_token="let-me-in") as served:
        yield served


@pytest.fixture
def job(bot: TestBot) -> Job:
    say_hello(bot)
    wish = Wish(
        incident=open_case(bot),
        kind=JobKind.LAUNCH,
        node=NODE,
        requested_by=f"user:{RESPONDER}",
        attempt=1,
        baseline=a_baseline(),
    )
    return request_job(bot.services, wish)


def claim_of(bot: TestBot, job: Job, **changes: Any) -> Claim:
    return Claim(**{"job_id": job.id, "node": NODE, "nonce": "n", "at": bot.clock.now(), **changes})


def error_of(response: Any) -> tuple[int, str]:
    body = response.json()
    assert body["type"] == "refusal"
    return response.status_code, body["error"]


async def test_a_claim_is_answered_under_the_bots_signature(http: Http, bot: TestBot, job: Job) -> None:
    reply = http.read(await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job)), ClaimReply)
    assert (reply.granted, reply.fence, reply.bot_time) == (True, 1, bot.clock.now())


async def test_heartbeat_and_progress_are_answered_with_the_cancel_state(http: Http, bot: TestBot, job: Job) -> None:
    await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job))
    said = {"job_id": job.id, "node": NODE, "at": bot.clock.now()}
    beat = http.read(await http.say(f"/jobs/{job.id}/heartbeat", Heartbeat(**said, fence=1)), HeartbeatReply)
    progress = http.read(await http.say(f"/jobs/{job.id}/progress", Progress(**said, seq=1)), HeartbeatReply)
    assert not beat.cancel
    assert not progress.cancel


async def test_a_hello_makes_the_node_known(http: Http, bot: TestBot) -> None:
    hello = NodeHello(node=NODE, version="1", catalogue="c", policy_sha256="p", at=bot.clock.now())
    reply = http.read(await http.say(f"/nodes/{NODE}/hello", hello), HelloReply)
    with bot.store.read() as reading:
        known = reading.node(NODE)
    assert reply.known
    assert known is not None
    assert known.hello == hello


async def test_an_older_hello_than_the_newest_is_refused(http: Http, bot: TestBot) -> None:
    hello = NodeHello(node=NODE, version="1", catalogue="c", policy_sha256="p", at=bot.clock.now())
    await http.say(f"/nodes/{NODE}/hello", hello)
    older = hello.model_copy(update={"at": bot.clock.now() - timedelta(seconds=5)})
    assert error_of(await http.say(f"/nodes/{NODE}/hello", older)) == (409, "replayed")


async def test_another_key_than_the_nodes_is_refused(http: Http, bot: TestBot, job: Job) -> None:
    response = await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job), key=SigningKey.generate())
    assert error_of(response) == (401, "bad_signature")


@pytest.mark.parametrize("key_id", ["node:gpu-b2", "bot", "node:", "", "node:../keys/bot"])
async def test_a_key_id_of_nobody_is_refused(http: Http, bot: TestBot, job: Job, key_id: str) -> None:
    response = await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job), key_id=key_id)
    assert error_of(response) == (401, "bad_signature")


async def test_a_body_changed_on_the_way_is_refused(http: Http, bot: TestBot, job: Job) -> None:
    envelope = http.envelope(claim_of(bot, job))
    envelope["body"]["nonce"] = "another"
    response = await http.client.post(f"/jobs/{job.id}/claim", json=envelope)
    assert error_of(response) == (401, "bad_signature")


async def test_one_kind_of_message_cannot_be_passed_off_as_another(http: Http, bot: TestBot, job: Job) -> None:
    envelope = http.envelope(claim_of(bot, job))
    assert error_of(await http.client.post(f"/jobs/{job.id}/heartbeat", json=envelope)) == (400, "malformed")


async def test_a_node_may_not_speak_for_another(http: Http, bot: TestBot, job: Job) -> None:
    response = await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job, node="gpu-b2"))
    assert error_of(response) == (403, "not_that_node")


async def test_a_message_about_another_job_than_the_address_is_refused(http: Http, bot: TestBot, job: Job) -> None:
    assert error_of(await http.say("/jobs/JOB-0099/claim", claim_of(bot, job))) == (400, "malformed")


@pytest.mark.parametrize("seconds", [-61, 61])
async def test_a_clock_too_far_off_is_refused_naming_both_times(
    http: Http, bot: TestBot, job: Job, seconds: int
) -> None:
    at = bot.clock.now() + timedelta(seconds=seconds)
    response = await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job, at=at))
    assert error_of(response) == (401, "clock_apart")
    detail = response.json()["detail"]
    assert f"{bot.clock.now():%H:%M:%S}" in detail
    assert at.isoformat(timespec="seconds") in detail


async def test_unknown_jobs_and_incidents_are_404(http: Http, bot: TestBot, job: Job) -> None:
    unknown = claim_of(bot, job, job_id="JOB-0099")
    assert error_of(await http.say("/jobs/JOB-0099/claim", unknown)) == (404, "unknown_job")
    query = IncidentQuery(incident="INC-0099", node=NODE, at=bot.clock.now())
    response = await http.client.get("/incidents/INC-0099", headers=http.header(query))
    assert error_of(response) == (404, "unknown_incident")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\xff\xfe", id="not UTF-8"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[" * 100_000, id="deep nesting"),
        pytest.param(b'{"schema": 1}', id="half an envelope"),
        pytest.param(b'{"schema":99,"key_id":"node:gpu-a1","body":{},"signature":""}', id="a later schema"),
        pytest.param(
            b'{"schema":1,"key_id":"node:gpu-a1","body":{"type":"claim","at":1.5},"signature":""}', id="a float"
        ),
    ],
)
async def test_what_is_no_message_is_refused_in_words(http: Http, body: bytes) -> None:
    response = await http.client.post("/jobs/JOB-0001/claim", content=body)
    assert response.status_code in {400, 401}
    assert response.json()["detail"]


async def test_a_body_over_the_limit_is_refused_before_it_is_read(http: Http) -> None:
    response = await http.client.post("/jobs/J/report", content=b"x" * (16 * 1024 * 1024 + 1))
    assert error_of(response) == (413, "too_large")


async def test_a_store_that_does_not_answer_is_503_in_words(
    http: Http, bot: TestBot, job: Job, monkeypatch: Any
) -> None:
    def down() -> Any:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(bot.store, "write", down)
    response = await http.say(f"/jobs/{job.id}/claim", claim_of(bot, job))
    assert error_of(response) == (503, "store_unavailable")
    assert response.headers["retry-after"] == "1"


# files


def offer_of(bot: TestBot, job: Job, data: bytes, **changes: Any) -> ArtifactOffer:
    return ArtifactOffer(
        **{
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_bytes": len(data),
            "name": "attempt-1.log",
            "job_id": job.id,
            "node": NODE,
            "at": bot.clock.now(),
            **changes,
        }
    )


async def put(http: Http, offer: ArtifactOffer, data: bytes) -> Any:
    return await http.client.put(f"/artifacts/{offer.sha256}", content=data, headers=http.header(offer))


async def test_a_file_is_stored_under_its_digest_once(http: Http, bot: TestBot, job: Job) -> None:
    offer = offer_of(bot, job, b"log\n" * 1000)
    assert (await put(http, offer, b"log\n" * 1000)).status_code == 204
    assert bot.artifacts.get(offer.sha256) == b"log\n" * 1000
    with bot.store.read() as reading:
        meta = reading.artifact(offer.sha256)
    assert meta is not None
    assert (meta.stored, meta.incident, meta.name) == (True, job.incident, "attempt-1.log")
    assert (await put(http, offer, b"not read again")).status_code == 204


@pytest.mark.parametrize(
    ("sent", "changes", "status"),
    [
        pytest.param(b"lag", {}, (409, "digest_mismatch"), id="other bytes"),
        pytest.param(b"longer", {}, (400, "malformed"), id="another size than offered"),
        pytest.param(b"log", {"size_bytes": 2**40}, (413, "too_large"), id="offered too large"),
        pytest.param(b"log", {"job_id": "JOB-0099"}, (404, "unknown_job"), id="of no job"),
        pytest.param(b"log", {"node": "gpu-b2"}, (403, "not_that_node"), id="for another node"),
    ],
)
async def test_a_file_that_is_not_as_offered_is_refused(
    http: Http, bot: TestBot, job: Job, sent: bytes, changes: dict[str, Any], status: tuple[int, str]
) -> None:
    offer = offer_of(bot, job, b"log", **changes)
    assert error_of(await put(http, offer, sent)) == status
    assert not bot.artifacts.has(offer.sha256)


async def test_a_file_larger_than_it_may_be_is_refused_while_it_comes(bot: TestBot, job: Job, tmp_path: Path) -> None:
    from bot.api.state import Limits

    async with serving(bot, tmp_path, limits=Limits(artifact_bytes=10)) as http:
        offer = offer_of(bot, job, b"x" * 10)
        assert error_of(await put(http, offer, b"x" * 11)) == (413, "too_large")


async def test_a_file_without_a_signed_offer_is_refused(http: Http) -> None:
    response = await http.client.put("/artifacts/" + "0" * 64, content=b"")
    assert error_of(response) == (400, "malformed")


# incidents, health, metrics


async def test_an_incident_is_shown_to_the_holder_of_a_token(http: Http, bot: TestBot, job: Job) -> None:
    token = create_token(bot.services, RESPONDER, valid_for=timedelta(days=1))
    headers = {"Authorization": f"Bearer {token.text}"}
    shown = (await http.client.get(f"/incidents/{job.incident}", headers=headers)).json()
    assert (shown["incident"], shown["phase"], shown["jobs"][0]["job_id"]) == (job.incident, "freeze", job.id)
    assert [entry["seq"] for entry in shown["entries"]] == [1, 2]
    assert shown["head"]["seq"] == 2


async def test_an_incident_is_shown_to_a_node_that_signs(http: Http, bot: TestBot, job: Job) -> None:
    query = IncidentQuery(incident=job.incident, node=NODE, at=bot.clock.now())
    response = await http.client.get(f"/incidents/{job.incident}", headers=http.header(query))
    assert response.json()["incident"] == job.incident


async def test_a_node_is_shown_its_own_incidents_only(http: Http, bot: TestBot) -> None:
    other = open_case(bot, node="gpu-b2")
    query = IncidentQuery(incident=other, node=NODE, at=bot.clock.now())
    response = await http.client.get(f"/incidents/{other}", headers=http.header(query))
    assert error_of(response) == (403, "not_that_node")


@pytest.mark.parametrize("ended", ["none", "wrong", "expired", "revoked"])
async def test_an_incident_is_shown_to_nobody_else(http: Http, bot: TestBot, job: Job, ended: str) -> None:
    token = create_token(bot.services, RESPONDER, valid_for=timedelta(days=1))
    headers = {"Authorization": f"Bearer {token.text}"}
    if ended == "none":
        headers = {}
    elif ended == "wrong":
        headers = {"Authorization": "Bearer baseline_wrong"}
    elif ended == "expired":
        bot.clock.forward(days=2)
    else:
        assert revoke_token(bot.services, token.digest)
        assert not revoke_token(bot.services, token.text)
    response = await http.client.get(f"/incidents/{job.incident}", headers=headers)
    assert error_of(response) == (401, "unauthorized")


async def test_health_and_readiness_are_open(http: Http) -> None:
    assert (await http.client.get("/healthz")).json()["ok"] is True
    ready = await http.client.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (200, True)


async def test_a_broker_that_is_down_is_told_and_no_reason_to_refuse_work(bot: TestBot, tmp_path: Path) -> None:
    from bot.errors import BrokerUnavailable

    def down() -> None:
        raise BrokerUnavailable("the broker does not answer: connection refused")

    async with serving(bot, tmp_path, check_broker=down) as http:
        ready = await http.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["checks"]["broker"].startswith("delayed: the broker does not answer")


async def test_a_store_that_is_down_makes_the_bot_not_ready(http: Http, bot: TestBot, monkeypatch: Any) -> None:
    def down() -> None:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(bot.store, "check", down)
    ready = await http.client.get("/readyz")
    assert (ready.status_code, ready.json()["ready"]) == (503, False)


async def test_metrics_want_their_token(http: Http, job: Job) -> None:
    assert error_of(await http.client.get("/metrics")) == (401, "unauthorized")
    page = await http.client.get("/metrics", headers={"Authorization": "Bearer let-me-in"})
    assert 'baseline_jobs_active{kind="launch",state="wanted"} 1.0' in page.text
    assert 'baseline_outbox_waiting{kind="job"} 1.0' in page.text
    assert "baseline_store_up 1.0" in page.text


async def test_metrics_say_that_the_store_is_down(bot: TestBot, tmp_path: Path, monkeypatch: Any) -> None:
    def down() -> Any:
        raise StoreUnavailable("the store does not answer")

    monkeypatch.setattr(bot.store, "read", down)
    async with serving(bot, tmp_path, metrics_open=True) as http:
        assert "baseline_store_up 0.0" in (await http.client.get("/metrics")).text


@pytest.mark.parametrize("path", ["/docs", "/openapi.json", "/redoc", "/nothing"])
async def test_what_is_not_there_is_refused_in_the_one_form(http: Http, path: str) -> None:
    assert error_of(await http.client.get(path)) == (404, "not_found")


async def test_a_wrong_method_is_refused_in_the_one_form(http: Http) -> None:
    assert error_of(await http.client.get("/jobs/JOB-0001/claim")) == (405, "method_not_allowed")


async def test_every_refusal_is_json(http: Http) -> None:
    response = await http.client.put("/artifacts/x", content=b"", headers={"Baseline-Envelope": "é".encode("latin-1")})
    assert json.loads(response.content)["type"] == "refusal"
