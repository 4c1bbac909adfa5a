"""Wiring of `baseline probe-cache`, `probe-feature` and `compare-prompts`: questions to one endpoint from this machine, without bot, broker or settings."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from playbooks.judging.cache_facts import CacheProbeFacts
from playbooks.judging.feature_facts import Feature, FeatureProbeFacts
from playbooks.judging.token_diff import TokenDiff, token_diff
from workers.adapters.engine_http import HttpxEngineHttp
from workers.errors import UnusableRequest
from workers.jobs.cache_probe import Endpoint, Probe
from workers.jobs.feature_probe import probe_feature

_UNITS = ("prefix_match_unit", "block_size")
"""Labels of the cache's configuration that tell its unit, the finer one first."""


def probe_cache_here(url: str, *, rounds: int, timeout_s: int, key_variable: str | None) -> CacheProbeFacts:
    """Probe an endpoint that the person named.

    key_variable: environment variable that holds the endpoint's API key; its value goes to that endpoint only.

    Raises:
        UnusableRequest: no HTTP address, a variable that is not set, or nobody answers there.
    """
    http = HttpxEngineHttp()
    probe = Probe(
        http,
        endpoint_of(http, url, key_variable),
        seed=secrets.token_hex(6),
        timeout_s=timeout_s,
        sleep=time.sleep,
        monotonic=time.monotonic,
    )
    return probe.run(endpoint_name(url), rounds=rounds)


def probe_feature_here(
    url: str, feature: Feature, *, tries: int, timeout_s: int, key_variable: str | None, tell: Callable[[str], None]
) -> FeatureProbeFacts:
    """Probe one feature of an endpoint that the person named.

    Raises:
        UnusableRequest: no HTTP address, a variable that is not set, or nobody answers there.
    """
    http = HttpxEngineHttp()
    where = endpoint_of(http, url, key_variable)
    return probe_feature(http, where, feature, target=where.url, tries=tries, timeout_s=timeout_s, tell=tell)


_AROUND = 8
"""Tokens shown before and after the place where two prompts part."""


def compare_prompts_here(
    url: str, bodies: tuple[dict[str, Any], dict[str, Any]], *, key_variable: str | None
) -> tuple[TokenDiff, tuple[str, str, str]]:
    """Compare two requests as the engine tokenizes them; returns also the text before the difference and both after it.

    Raises:
        UnusableRequest: nobody answers there, or the engine cannot tokenize one of them.
    """
    http = HttpxEngineHttp()
    where = endpoint_of(http, url, key_variable)
    found = []
    for number, body in enumerate(bodies, 1):
        tokens = http.prompt_tokens(where.url, {"model": where.model, **body}, headers=where.headers)
        if tokens is None:
            raise UnusableRequest(
                f"request {number}: the engine's /tokenize does not take it (expected messages or a prompt)"
            )
        found.append(tokens)
    text = http.metrics(where.url, headers=where.headers)
    read = http.read_metrics(text) if text is not None else None
    labels = {} if read is None else read[1]
    unit = next((int(labels[name]) for name in _UNITS if labels.get(name, "").isdecimal()), None)
    diff = token_diff(found[0], found[1], unit=unit)
    at = diff.common
    parts = (found[0][max(at - _AROUND, 0) : at], found[0][at : at + _AROUND], found[1][at : at + _AROUND])
    texts = [
        http.text_of(where.url, part, model=where.model, headers=where.headers) or "" if part else "" for part in parts
    ]
    return diff, (texts[0], texts[1], texts[2])


def endpoint_name(url: str) -> str:
    """Return the address without the path that clients add."""
    return url.rstrip("/").removesuffix("/v1")


def endpoint_of(http: HttpxEngineHttp, url: str, key_variable: str | None) -> Endpoint:
    """Return where a probe is sent.

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
    endpoint = endpoint_name(url)
    model = http.model_name(endpoint, headers=headers)
    if model is None:
        raise UnusableRequest(f"nobody at {endpoint} answers /v1/models as vLLM does")
    return Endpoint(endpoint, headers, model)
