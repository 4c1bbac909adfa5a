"""What two runs of one failure have in common: lines without pids, ports, addresses, times, sizes and ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_RULES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"'port': \d+(?:, )?", ""),
        (r"Failed core proc\(s\): \{[^}]*\}", "Failed core proc(s): <set>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"\b0x[0-9a-fA-F]+\b", "<addr>"),
        (r"vllm_dist_\w+", "vllm_dist_<id>"),
        (r"/(?:tmp|var/tmp|dev/shm)/[\w./-]+", "<tmp>"),
        (r"\b(?:tcp|ipc|inproc|http|https)://[\w.:\[\]/@-]+", "<url>"),
        (r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b", "<host>"),
        (r"\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?", "<time>"),
        (r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?\b", "<time>"),
        (r"\[[WEIF]\d{4} <time>(?:\.\d+)?", "[<time>"),
        (r"\b(?:pid|port|rank|Rank|PID|local_rank|fd)[ =:]*\d+", "<n>"),
        (r"\b[0-9a-f]{12,64}\b", "<hex>"),
        (
            r"\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)? ?(?:[KMGT]i?B|bytes?|seconds?|secs?|ms|s|%|tokens?|it/s|B)(?![A-Za-z])",
            "<size>",
        ),
        (r"\b\d+(?:\.\d+)?\b", "<n>"),
        (r"\s+", " "),
    )
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line \d+, in (?P<name>[^\s]+)')
_CYTHON = re.compile(r"File \"(?P<file>[^\"]+)\"(?:, line \d+)?,? in (?P<name>\S+)")
_WRAPPERS = ("sync_wrapper", "wrapper", "_inner_fn", "inner", "_wrapped_call_impl", "_call_impl", "decorate_context")


def line(text: str) -> str:
    """Normalise one line."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


def frame(text: str) -> str | None:
    """Return `module:function` of a stack line, None when the line is no frame or a mere wrapper."""
    match = _FRAME.search(text) or _CYTHON.search(text)
    if match is None or match["name"] in _WRAPPERS:
        return None
    path = match["file"].replace("\\", "/")
    for root in ("site-packages/", "dist-packages/"):
        if root in path:
            path = path.split(root, 1)[1]
            break
    else:
        path = path.rsplit("/", 1)[-1]
    return f"{path}:{match['name']}"


def digest(lines: Iterable[str]) -> str:
    """Digest normalised lines, order kept, neighbours that repeat counted once."""
    whole = hashlib.sha256()
    last = None
    for text in lines:
        if text and text != last:
            whole.update(text.encode("utf-8", "replace") + b"\n")
            last = text
    return whole.hexdigest()
