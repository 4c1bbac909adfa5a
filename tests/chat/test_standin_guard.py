"""Only this machine's own pages and programs may speak to the sandbox."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.errors import SandboxError
from bot.sandbox.supervisor import Options, run
from tests.support.standin_bench import CHANNEL, OLGA, Bench, bench


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Bench]:
    made = bench(tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"host": "evil.example"}, id="another name for this address"),
        pytest.param({"host": "127.0.0.1:1"}, id="another port"),
        pytest.param({"origin": "https://evil.example"}, id="a foreign page"),
        pytest.param({"origin": "null"}, id="a page without an origin"),
        pytest.param({"origin": "https://127.0.0.1:8899"}, id="another scheme"),
        pytest.param({"origin": "http://127.0.0.1:8900"}, id="another port of this machine"),
        pytest.param({"sec-fetch-site": "cross-site"}, id="a cross-site request"),
    ],
)
@pytest.mark.parametrize(("method", "path"), [("GET", "/page/state?user=U01OLGA"), ("POST", "/page/say"), ("POST", "/api/auth.test"), ("POST", "/slack/events")])  # fmt: skip
async def test_strangers_are_refused(at: Bench, headers: dict[str, str], method: str, path: str) -> None:
    answer = await at.http.request(method, path, headers=headers, json={"user": OLGA, "channel": CHANNEL, "text": "x"})
    assert answer.status_code == 403
    assert (await at.state())["messages"][CHANNEL] == []


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8899", "http://localhost:8899", "http://[::1]:8899"])
async def test_the_page_itself_is_let_in(at: Bench, origin: str) -> None:
    headers = {"origin": origin, "host": origin.removeprefix("http://"), "sec-fetch-site": "same-origin"}
    answer = await at.http.post("/page/say", headers=headers, json={"user": OLGA, "channel": CHANNEL, "text": "hello"})
    assert answer.status_code == 200


async def test_a_link_from_elsewhere_may_open_the_page(at: Bench) -> None:
    answer = await at.http.get("/", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"})
    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


async def test_a_message_that_looks_like_a_real_token_is_not_sent(at: Bench) -> None:
    token = "xoxb" + "-123456789012-abcdefABCDEF"
    done = await at.page("say", user=OLGA, channel=CHANNEL, text=f"my token is {token}")
    assert not done["ok"]
    assert token not in str(await at.state())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.com"])
def test_the_sandbox_listens_on_loopback_only(tmp_path: Path, host: str) -> None:
    with pytest.raises(SandboxError, match="expected a loopback address"):
        run(Options(host=host, port=8899, data=tmp_path), say=print, started=lambda: None)
