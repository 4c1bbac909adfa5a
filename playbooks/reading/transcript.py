"""Lines of a log as the runtimes, collectors and vLLM's own versions wrap them, unwrapped one at a time.

A line ends with LF only; a bare CR inside is a progress bar or a rewritten newline and belongs to the line.
Says what a line is (process, level, source, text), never what it means.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

LONGEST = 16_384
"""Characters of a line that are looked at; a longer line keeps its number and its digest elsewhere."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_SPELLED = re.compile(r"(?:\^\[|\\u001b|\\x1b|\\033)\[[0-9;]*m")
"""Colours whose escape character was written out by whatever copied the line."""
_BARE = re.compile(r"\[(?:0|1|0;0|1;\d\d|\d\d)m")
"""Colours whose escape character was lost on the way."""
_RFC3339 = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?"
_OUTER = (
    # kubectl --prefix, stern: `[pod/name/container] …`
    ("[pod/", re.compile(r"\[pod/[^\]\s]+\] ?")),
    # a container runtime's own form (CRI): `2026-… stdout F …`
    (" std", re.compile(rf"{_RFC3339} (?:stdout|stderr) [FP] ?")),
    # `docker logs -t`, `kubectl logs --timestamps`; a dash may follow
    ("-", re.compile(rf"\[?{_RFC3339}\]? (?=\S|\s|$)(?!\s*(?:\||-) )")),
    # compose: `name-1  | …`
    ("|", re.compile(r"[A-Za-z0-9][\w.-]{0,60}\s{0,24}\| ?")),
    # journald and syslog: `Mon DD HH:MM:SS host unit[pid]: …`
    (": ", re.compile(r"[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} [\w.-]+ [\w./@-]+(?:\[\d+\])?: ?")),
    # journald short-iso: the time stamp is taken above, then `host unit[pid]: …`
    ("]: ", re.compile(r"[\w.-]+ (?!NVRM)[\w./@-]+\[\d+\]: ?")),
    # a launcher's tag: `[vllm] | …`, `[VLLM LOG] …`
    ("[", re.compile(r"(?i)\[[\w .-]{0,24}vllm[\w .-]{0,24}\] ?(?:\| ?)?")),
    # slurm and pdsh: `3: …`, `node-a: ` are left alone, they look like too much else; `[rank3]:` is torch's own
)
_PROCESS = re.compile(
    r"\((?P<name>MainProcess|APIServer|ApiServer_\d+|EngineCore\w*|(?:Vllm)?Worker[\w-]*(?: (?:rank=\d+|[DTPE]P\d+))*|RustFrontend\w*|DPSupervisor\w*"
    r"|DPCoordinator\w*|ServeController|ServeReplica\S*|RayWorker\w*|RayWorkerProc\w*|RayWorkerWrapper|raylet|Engine\w*|\w*Proc\w*"
    r"|[\w-]{2,40}(?=, pid=\d)),? pid=(?P<pid>\d+)(?:, ip=(?P<ip>[\d.a-fA-F:]*))?\) ?"
)
_COMMON = re.compile(
    r"\((?P<name>MainProcess|APIServer|ApiServer_\d+|EngineCore\w*|Worker\w*) pid=\d+\) "
    r"(?P<level>DEBUG|INFO|WARNING|ERROR)\s{1,6}\d{2}-\d{2} \d{2}:\d{2}:\d{2} \[(?P<file>[\w./-]+\.\w+):\d+\]\s?"
)
"""The form that most lines of an engine have: `_PROCESS` and `_LEVEL` in one step."""
_RECORD = re.compile(
    r"(?<=\S) (?=\((?:APIServer|EngineCore\w*|Worker\w*) pid=\d+\) (?:DEBUG|INFO|WARNING|ERROR)\s{1,6}\d{2}-\d{2} \d{2}:\d{2}:\d{2} \[)"
)
_LED_BY = re.compile(
    r".{1,120}?(?=\((?:APIServer|ApiServer_\d+|EngineCore\w*|(?:Vllm)?Worker\w*(?: (?:rank=\d+|[DTPE]P\d+))*|RayWorkerWrapper) pid=\d+"
    r"|\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{1,6}\d{2}-\d{2} \d{2}:\d{2}:\d{2} \[?[\w./-]{1,80}\.py:\d+\])"
)
"""Whatever a launcher, a terminal or a mail programme put before a record of vLLM's own form."""
_INDENTED = re.compile(
    r"\s+(?=(?:\([\w ,=]+\) )*(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{1,6}\d{2}-\d{2} \d{2}:\d{2}:\d{2})"
)
"""A whole log was indented where it was pasted."""
_RANK = re.compile(r"\[(?:rank|Rank |RANK )(?P<rank>\d+)\]:? ?(?=[^\s]|\s|$)")
_LEVEL = re.compile(
    r"(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\s{1,6})"
    r"(?P<stamp>\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:[.,]\d+)?|\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(?:[.,]\d+)?)?\s?"
    r"(?:\[(?P<file>[\w./-]+\.\w+):(?P<line>\d+)\]|(?P<file2>[\w./-]+\.py):(?P<line2>\d+)\])\s?"
)
_PLAIN_LEVEL = re.compile(r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b:?\s{1,5}")
_LOGFMT = re.compile(r'time="?[^ "]{8,40}"? level=(?P<level>\w{4,7}) (?=msg=)')
"""What containerd, Docker and the container toolkits write."""
_OTHER_LOGGER = re.compile(r"(?:LMCache|lmcache) (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):?\s{1,5}")
_GLOG = re.compile(r"\[?(?P<level>[IWEF])(?:\d{3,4}|\d{8}) \d{2}:\d{2}:\d{2}(?:\.\d+)?[^\]]{0,80}\] ?")
_RUST = re.compile(rf"(?:{_RFC3339}\s+)?(?P<level>TRACE|DEBUG|INFO|WARN|ERROR) (?P<source>[a-z_][\w:]*): ?")
_BEGINS_LEVEL = frozenset("DIWECFT[0123456789")
"""What any of the four forms of a level begins with."""
_PYTHON = ("Traceback", "File ")
_OWN = ("(APIServer", "(EngineCore", "(Worker", "(VllmWorker", "INFO ", "WARNING ", "ERROR ", "DEBUG ")
"""What a record of vLLM's own form begins with when nothing was put before it."""
_LEVELS = {
    "I": "INFO",
    "W": "WARNING",
    "E": "ERROR",
    "F": "FATAL",
    "WARN": "WARNING",
    "CRITICAL": "ERROR",
    "FATAL": "ERROR",
    "TRACE": "DEBUG",
    "PANIC": "ERROR",
}
_JSON_TEXT = ("log", "message", "msg", "event", "MESSAGE", "text")
_JSON_LEVEL = ("level", "levelname", "severity")
_JSON_PROCESS = ("process", "processName", "process_name", "logger_name")


class Line(NamedTuple):
    """One line of a transcript; a tuple, for one is made of each line that is read.

    no: from 1, counted by LF only.
    text: without wrapping, prefix and colour; the last state of a progress bar. A record of a structured log may hold
        several lines.
    level: `DEBUG` … `ERROR`; empty when the line has none.
    file: source file that vLLM's logger names, without its line.
    """

    no: int
    text: str
    process: str = ""
    level: str = ""
    file: str = ""
    logged: bool = False
    """Whether a logger's own prefix stood before the text."""


def read_line(no: int, raw: str | bytes) -> Line:
    """Unwrap one line; any bytes are fine."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    text = text.rstrip("\r\n")
    if len(text) > LONGEST:
        text = text[:LONGEST]
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if "[0" in text:
        text = _without_spelled_colours(text)
    if text.startswith("(") and "\r" not in text and (match := _COMMON.match(text)):
        return _ranked(no, text[match.end() :], match["name"], match["level"], match["file"], logged=True)
    level = process = ""
    stripped = text.lstrip()
    if stripped.startswith("{"):
        inner = _from_json(stripped)
        if inner is not None:
            text, level, process = inner
            text = text.rstrip("\r\n")
    if "\r" in text:
        text = _last_state(text)
    if text[:1] in {" ", "\t"} and (match := _INDENTED.match(text)):
        text = text[match.end() :]
    return _inner(no, _led(_unwrap(text)), level, process)


def _led(text: str) -> str:
    """Take off whatever else stands before a record of vLLM's own form."""
    if (" pid=" in text or ".py:" in text) and not text.startswith(_OWN) and (match := _LED_BY.match(text)):
        return text[match.end() :]
    return text.removeprefix("> ")


def _without_spelled_colours(text: str) -> str:
    if "^[[" in text or "1b[" in text or "033[" in text:
        text = _SPELLED.sub("", text)
    return _BARE.sub("", text) if "[0m" in text or "[0;0m" in text else text


def records(text: str) -> list[str]:
    """Take apart a line that holds several records of vLLM's logger, as where a paste lost its line ends."""
    return _RECORD.split(text)


def _last_state(text: str) -> str:
    """Keep what a terminal would show: the last piece that is not empty."""
    return next((piece for piece in reversed(text.split("\r")) if piece.strip()), "")


def _from_json(text: str) -> tuple[str, str, str] | None:
    """Take message, level and process out of a JSON log line; None when it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    body = next((value[key] for key in _JSON_TEXT if isinstance(value.get(key), str)), None)
    if body is None or not (len(value) > 1 or "log" in value):
        return None
    if not (
        {"stream", "time", "timestamp", "ts", "asctime", "@timestamp"} & value.keys()
        or any(k in value for k in _JSON_LEVEL)
    ):
        return None
    level = next((str(value[key]).upper() for key in _JSON_LEVEL if isinstance(value.get(key), str)), "")
    process = next((str(value[key]) for key in _JSON_PROCESS if isinstance(value.get(key), str)), "")
    if isinstance(value.get("exc_info"), str):
        body = f"{body.rstrip()}\n{value['exc_info'].strip()}"
    return body, _LEVELS.get(level, level), process


def _unwrap(text: str) -> str:
    """Take collectors' and runtimes' prefixes off, outermost first, each kind once."""
    for sign, pattern in _OUTER:
        if sign in text and (match := pattern.match(text)) and match.end() and not text.startswith(_PYTHON):
            text = text[match.end() :]
    return text


def _inner(no: int, text: str, level: str, process: str) -> Line:
    file = ""
    logged = False
    for _ in range(3):
        if not text.startswith("(") or not (match := _PROCESS.match(text)):
            break
        process = match["name"]
        text = text[match.end() :]
    if text.startswith("[") and (match := _RANK.match(text)):
        process = process or f"rank{match['rank']}"
        text = text[match.end() :]
    if text[:1] in _BEGINS_LEVEL:
        if match := _LEVEL.match(text):
            level, file, logged = match["level"], match["file"] or match["file2"] or "", True
            text = text[match.end() :]
        elif (match := _GLOG.match(text)) or (match := _RUST.match(text)):
            level, logged = match["level"], True
            text = text[match.end() :]
        elif match := _PLAIN_LEVEL.match(text):
            level = match["level"]
            text = text[match.end() :]
    elif text.startswith("time=") and (match := _LOGFMT.match(text)):
        level = match["level"].upper()
        text = text[match.end() :]
    elif text.startswith(("LMCache ", "lmcache ")) and (match := _OTHER_LOGGER.match(text)):
        level, logged = match["level"], True
        text = text[match.end() :]
    return _ranked(no, text, process, level, file, logged=logged)


def _ranked(no: int, text: str, process: str, level: str, file: str, *, logged: bool) -> Line:
    """Take a rank off that stands behind everything else."""
    if text.startswith("[") and (match := _RANK.match(text)):
        process = process or f"rank{match['rank']}"
        text = text[match.end() :]
    if not level and " NCCL INFO " in text[:80]:
        level = "INFO"
    return Line(no, text.rstrip(), process, _LEVELS.get(level, level), file, logged)
