"""Wiring of `baseline probe-cache`: a probe of one endpoint from this machine, without bot, broker or settings."""

from __future__ import annotations

import os
import secrets
import time
from urllib.parse import urlsplit

from playbooks.judging.cache_facts import CacheProbeFacts
from workers.adapters.engine_http import HttpxEngineHttp
from workers.errors import UnusableRequest
from workers.jobs.cache_probe import Endpoint, Probe


def probe_cache_here(url: str, *, rounds: int, timeout_s: int, key_variable: str | None) -> CacheProbeFacts:
    """Probe an endpoint that the person named.

    key_variable: environment variable that holds the endpoint's API key; its value goes to that endpoint only.

    Raises:
        UnusableRequest: no HTTP address, a variable that is not set, or nobody answers there.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        raise UnusableRequest(f"expected an address like http://127.0.0.1:8000, found {url[:200]!r}")
    headers = {}
    if key_variable is not None:
        value = os.environ.get(key_variable)
        if not value:
            raise UnusableRequest(f"expected an API key in the environment variable {key_variable}, found none")
        headers = {"Authorization": f"Bearer {value}"}
    endpoint = url.rstrip("/").removesuffix("/v1")
    http = HttpxEngineHttp()
    model = http.model_name(endpoint, headers=headers)
    if model is None:
        raise UnusableRequest(f"nobody at {endpoint} answers /v1/models as vLLM does")
    probe = Probe(
        http,
        Endpoint(endpoint, headers, model),
        seed=secrets.token_hex(6),
        timeout_s=timeout_s,
        sleep=time.sleep,
        monotonic=time.monotonic,
    )
    return probe.run(endpoint, rounds=rounds)
