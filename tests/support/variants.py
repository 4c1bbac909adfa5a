"""Labelled logs rendered in other ways: prefixes of other releases and collectors, other names and numbers, other company.

A variant keeps what happened; so the verdict must stay, with the root line where it went.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tests.support.labels import LOGS, Label

_PREFIX = re.compile(r"\((?P<name>[A-Za-z]\w*(?:-\d+)?) pid=(?P<pid>\d+)(?P<ip>, ip=[\d.]+)?\) ?")
_LEVEL = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR) (?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[(?P<file>[\w./]+\.py):(?P<no>\d+)\] ?"
)
_DOCUMENTS = ("docker_inspect_json", "http_response", "metrics")
_OTHER = "(Worker_TP6 pid=71234) INFO 11-30 10:11:12 [gpu_worker.py:101] Using the back end chosen for this layer."


@dataclass(frozen=True, slots=True)
class Varied:
    """A rendering: the lines, and for each old line (from 0) where it is now; None when it was cut."""

    lines: list[str]
    at: list[int | None]
    head_kept: bool = True


Variant = Callable[[list[str], Label, random.Random], Varied | None]


def _each(change: Callable[[str], str]) -> Variant:
    def vary(lines: list[str], label: Label, rng: random.Random) -> Varied:
        return Varied([change(line) for line in lines], list(range(len(lines))))

    return vary


def _engine_log_only(variant: Variant) -> Variant:
    """A document of its own is not what a collector wraps line by line."""

    def vary(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
        return None if label.row["input_kind"].startswith(_DOCUMENTS) else variant(lines, label, rng)

    return vary


def _stamp(no: int) -> str:
    return f"{no // 3600 % 24:02d}:{no // 60 % 60:02d}:{no % 60:02d}"


def _numbered(prefix: Callable[[int, str], str]) -> Variant:
    def vary(lines: list[str], label: Label, rng: random.Random) -> Varied:
        return Varied([prefix(no, line) for no, line in enumerate(lines)], list(range(len(lines))))

    return _engine_log_only(vary)


# ---- prefixes of vLLM's own releases


def _every_line_prefixed(lines: list[str], label: Label, rng: random.Random) -> Varied:
    """Before 0.31 each write of a process is prefixed, whatever wrote it."""
    out, speaking = [], ""
    for line in lines:
        found = _PREFIX.match(line)
        if found:
            speaking = f"({found['name']} pid={found['pid']}) "
        out.append(line if found or not speaking or line.startswith(("$", "[rank")) else speaking + line)
    return Varied(out, list(range(len(lines))))


def _raw_lines_bare(line: str) -> str:
    """From 0.31 on only the logger prefixes."""
    found = _PREFIX.match(line)
    return line[found.end() :] if found and not _LEVEL.match(line, found.end()) else line


def _coloured(line: str) -> str:
    found = _PREFIX.match(line)
    return f"\x1b[0;36m{found[0].rstrip()}\x1b[0;0m {line[found.end() :]}" if found else line


def _under_ray(line: str) -> str:
    return re.sub(r"^\((?:Vllm)?Worker\w*(?:-\d+)? pid=(\d+)\)", r"(RayWorkerWrapper pid=\1, ip=10.1.2.3)", line)


def _json_values(line: str) -> tuple[str, str, str]:
    process = _PREFIX.match(line)
    rest = line[process.end() :] if process else line
    level = _LEVEL.match(rest)
    return process["name"] if process else "", level["level"] if level else "", rest[level.end() :] if level else rest


def _json_line(no: int, line: str) -> str:
    process, level, text = _json_values(line)
    value = {"timestamp": f"2026-11-30T{_stamp(no)}Z", "level": level or "INFO", "message": text}
    if not level:
        return line
    return json.dumps({**value, "process": process} if process else value)


def _json_records(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    """One object for each call of the logger, its newlines inside."""
    out: list[str] = []
    at: list[int | None] = []
    last, texts = None, []

    def close() -> None:
        if last is not None and texts:
            out[-1] = json.dumps({
                "ts": "2026-11-30T00:00:00Z", "levelname": last[1], "process_name": last[0], "msg": "\n".join(texts)
            })  # fmt: skip

    for line in lines:
        process = _PREFIX.match(line)
        level = _LEVEL.match(line, process.end() if process else 0)
        key = (process["name"] if process else "", level["level"], level["file"] + level["no"]) if level else None
        if key is None or key != last:
            close()
            texts = []
            out.append(line)
        if level:
            texts.append(line[level.end() :].rstrip("\r"))
        last = key
        at.append(len(out) - 1)
    close()
    return Varied(out, at)


# ---- other names and numbers


def _other_pids(lines: list[str], label: Label, rng: random.Random) -> Varied:
    shift = rng.randrange(1000, 90000)
    changed = [re.sub(r"(pid=)(\d+)", lambda m: f"{m[1]}{int(m[2]) + shift}", line) for line in lines]
    return Varied([re.sub(r"0x[0-9a-f]{6,}", "0x7fa1b2c3d4e0", line) for line in changed], list(range(len(lines))))


def _other_ranks(line: str) -> str:
    line = re.sub(r"\bWorker_TP(\d+)\b", lambda m: f"Worker_DP1_TP{int(m[1]) + 3}_EP{int(m[1]) + 11}", line)
    line = re.sub(r"\((?:Vllm)?Worker pid", "(Worker_TP3 pid", line)
    return re.sub(r"\(EngineCore(?:_\d)? pid", "(EngineCore_DP1 pid", line)


def _other_paths(line: str) -> str:
    line = re.sub(r"/[\w./-]*?/(?:site|dist)-packages/", "/srv/app/.venv/lib/python3.13/site-packages/", line)
    return line.replace("/models/", "/mnt/weights/prod-7/")


def _other_model(line: str) -> str:
    line = re.sub(r"(?<![\w'`])tinymodel\b|\btiny-\w+\b", "Some-Model-9B", line)
    return re.sub(r"(?i)\bkimi-k[23][\w.-]*", "acme-xl", line) if "parser" not in line and "Kimi" not in line else line


def _other_sizes(line: str) -> str:
    return re.sub(
        r"(?<![\d.,(])(\d+\.\d+)(?= (?:GiB|MiB|GB|seconds|secs?|s)\b)",
        lambda m: f"{float(m[1]) * 1.31 + 0.17:.2f}",
        line,
    )


# ---- other company


def _interleaved(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    """Another process writes between the lines."""
    if not any(_PREFIX.match(line) for line in lines):
        return None
    out: list[str] = []
    at: list[int | None] = []
    for line in lines:
        if out and _LEVEL.search(line) and rng.random() < 0.3:
            out.append(_OTHER)
        at.append(len(out))
        out.append(line)
    return Varied(out, at)


def _swapped(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    """Neighbouring lines of two processes come in the other order."""
    order = list(range(len(lines)))
    place = 0
    while place < len(order) - 1:
        one, two = (_PREFIX.match(lines[order[place + d]]) for d in (0, 1))
        if one and two and one["name"] != two["name"] and rng.random() < 0.6:
            order[place], order[place + 1] = order[place + 1], order[place]
            place += 1
        place += 1
    at: list[int | None] = [0] * len(lines)
    for new, old in enumerate(order):
        at[old] = new
    return Varied([lines[old] for old in order], at)


def _head_cut(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    """Begin with the root's own traceback; what is told by several lines of an answer needs them all."""
    root = label.row["root_line"]
    if root is None or label.row["error_class"].startswith(("prefix_", "tool_call")):
        return None
    start = root - 1
    process = _PREFIX.match(lines[start])
    for no in range(start, max(start - 200, -1), -1):
        mine = _PREFIX.match(lines[no])
        if "Traceback (most recent call last)" in lines[no] and (mine and mine[0]) == (process and process[0]):
            start = no
            break
    return Varied(lines[start:], [None] * start + list(range(len(lines) - start)), head_kept=False)


def _read(name: str) -> list[str]:
    return (LOGS / name).read_bytes().decode().split("\n")[:-1]


def _healthy_before(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    if label.row["input_kind"].startswith(_DOCUMENTS):
        return None
    before = _read("real-vllm/" + rng.choice(["ok-minimal-r1.log", "ok-tp2-gloo.log", "hybrid-granite.log"]))
    return Varied(before + lines, [len(before) + no for no in range(len(lines))])


def _failure_after(lines: list[str], label: Label, rng: random.Random) -> Varied | None:
    if None in (label.row["root_line"], *label.row.get("root_line_also_ok", ())):
        return None  # the launch named nothing itself, so the next one's words are the first
    other = rng.choice(
        ["port-in-use.log", "unknown-tool-parser.log", "no-weights.log", "max-model-len-over-config.log"]
    )
    after = _read("real-vllm/" + other)
    return Varied(lines + after, list(range(len(lines))))


def _noise_before(lines: list[str], label: Label, rng: random.Random) -> Varied:
    """What a shell and an entry point print before the engine."""
    before = [
        "+ exec vllm serve /models/m --port 8000",
        "==========",
        "== CUDA ==",
        "==========",
        "CUDA Version 13.0.1",
        "WARNING: The NVIDIA Driver was not asked for; ignoring an error: none",
        "",
    ]
    return Varied(before + lines, [len(before) + no for no in range(len(lines))])


ALL: dict[str, Variant] = {
    "every line prefixed (before 0.31)": _every_line_prefixed,
    "raw lines bare (from 0.31)": _each(_raw_lines_bare),
    "json lines": _numbered(_json_line),
    "json records": _engine_log_only(_json_records),
    "docker json-file": _numbered(
        lambda no, line: json.dumps({"log": line + "\n", "stream": "stderr", "time": f"2026-11-30T{_stamp(no)}.1Z"})
    ),
    "kubectl --prefix": _numbered(lambda no, line: f"[pod/vllm-7d9f-x2/vllm] {line}"),
    "kubectl --prefix --timestamps": _numbered(
        lambda no, line: f"[pod/vllm-7d9f-x2/vllm] 2026-11-30T{_stamp(no)}.118273645Z {line}"
    ),
    "compose": _numbered(lambda no, line: f"vllm-1  | {line}"),
    "timestamps": _numbered(lambda no, line: f"2026-11-30T{_stamp(no)}.118273645Z {line}"),
    "container runtime": _numbered(lambda no, line: f"2026-11-30T{_stamp(no)}.118273645+00:00 stderr F {line}"),
    "journald": _numbered(lambda no, line: f"Nov 30 {_stamp(no)} gpu-17 vllm[4711]: {line}"),
    "carriage returns": _each(lambda line: line.rstrip("\r") + "\r"),
    "coloured": _each(_coloured),
    "colours without escapes": _each(lambda line: _coloured(line).replace("\x1b", "")),
    "colours spelled out": _each(lambda line: _coloured(line).replace("\x1b", "\\u001b")),
    "quoted": _each(lambda line: f"> {line}"),
    "a launcher's tag": _numbered(lambda no, line: f"[vllm] | {line}"),
    "numbered listing": _numbered(lambda no, line: f"{no:5}  {line}"),
    "under Ray": _each(_under_ray),
    "other pids": _other_pids,
    "other ranks": _each(_other_ranks),
    "other paths": _each(_other_paths),
    "other model": _each(_other_model),
    "other sizes": _each(_other_sizes),
    "interleaved": _interleaved,
    "swapped": _swapped,
    "head cut": _engine_log_only(_head_cut),
    "healthy start before": _healthy_before,
    "unrelated failure after": _failure_after,
    "entry point's noise before": _noise_before,
}


def varied(label: Label, name: str) -> tuple[bytes, Label] | None:
    """Render a log as the variant says, with the label moved along; None where the variant makes no sense for it."""
    rng = random.Random(f"{label.path.name}/{name}")
    text = label.data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    result = ALL[name](lines, label, rng)
    if result is None:
        return None

    def moved(no: int | None) -> int | None:
        if no is None or not 1 <= no <= len(result.at):
            return None
        now = result.at[no - 1]
        return None if now is None else now + 1

    row: dict[str, Any] = dict(label.row)
    row["root_line"] = moved(row["root_line"])
    row["root_line_also_ok"] = [moved(no) for no in row.get("root_line_also_ok", ()) if no is None or moved(no)]
    if not result.head_kept:
        row["stage_also_ok"] = _EVERY_STAGE
    data = ("\n".join(result.lines) + "\n").encode("utf-8", "surrogateescape")
    return data, replace(label, row=row)


_EVERY_STAGE = (
    "container_init", "device_recognition", "weight_loading", "engine_init", "endpoint_ready", "serving", "none",
)  # fmt: skip
