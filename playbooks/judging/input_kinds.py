"""What kind of text an input is, told by its content; a paste that mixes several is named by its main part."""

from __future__ import annotations

import re

from ahocorasick_rs import AhoCorasick

from playbooks.judging import literals

_MOST_DOCUMENT = 1_000_000
_HEAD = 400
"""Lines in which the forms are counted; later only while nothing of an engine was seen."""
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("docker_run_stderr", re.compile(r"docker: Error response from daemon|^Error response from daemon:|nvidia-container-cli:|Unable to find image")),
    ("kubectl_describe", re.compile(r"kubectl\b.*\b(?:describe|get)\b|^Events:|\bkubelet\s{2,}|^\s+Last State:|^LAST SEEN +TYPE|^NAME +READY +STATUS|\bFailedScheduling\b")),
    ("dmesg", re.compile(r"NVRM: |amdgpu [\da-f]{4}:|\[\s*\d+\.\d{6}\] |oom-kill:|Out of memory: Killed process")),
    ("docker_inspect_json", re.compile(r'"(?:HostConfig|State)": ?\{|"OOMKilled": ?(?:true|false)|docker inspect|"CONTAINER_(?:EXITED|RUNNING|CREATED)"')),
    ("http_response", re.compile(r'"object": ?"(?:chat\.completion|text_completion|error)|^HTTP/[\d.]+ \d{3}|^data: \{|"choices": ?\[|^\{"(?:error|detail)": ?|^<head><title>[45]\d\d |upstream connect error|no healthy upstream')),
    ("metrics", re.compile(r"^# (?:HELP|TYPE) |^vllm:\w+(?:\{| )")),
    ("nvidia_smi", re.compile(r"NVIDIA-SMI |<nvidia_smi_log>|^GPU \d+: .*\(UUID: ")),
    ("sglang_log", re.compile(r"\bsglang\b|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: TP\d+)?\] ")),
)  # fmt: skip
_WORDS = AhoCorasick(
    sorted(
        {word for _, form in _FORMS for branch in literals.branches(form.pattern) for word in literals.required(branch)}
    )
)
"""One of them is in each line that has one of the forms, in lower case; a form without such words holds a bracket."""
_VLLM = re.compile(
    r"non-default args:|\[(?:core|api_server|api_utils|utils|multiproc_executor|gpu_worker|gpu_model_runner|parallel_state|core_client)"
    r"\.py:\d+\]|vllm/(?!vllm-openai)\w|vLLM|\bvllm(?: serve)?: |\b(?:import|from) vllm\b|EngineCore"
)
_ENOUGH = 3
"""Lines of vLLM after which the input counts as its log."""
_SHELL = re.compile(r"^(?:[\w.-]+ )?[$#] \S")


class KindDetector:
    """Counts the forms of the lines; a bounded copy of the text is kept for documents that are read as a whole."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._document: list[tuple[int, str]] = []
        self._size = 0
        self._vllm = 0
        self.kind = ""

    def feed(self, no: int, text: str, *, logged: bool = False) -> None:
        """Take one unwrapped line; `logged` when a Python logger's own prefix stood before it."""
        if not text:
            return
        told = False
        if self._vllm < _ENOUGH and (logged or _VLLM.search(text)):
            self._vllm += 1
            told = True
        if no <= _HEAD or self._vllm == 0:
            if "[" in text or _WORDS.find_matches_as_indexes(text.lower()):
                form = next((name for name, form in _FORMS if form.search(text)), "")
                told |= bool(form)
                self._count(form)
            if _SHELL.match(text):
                told = True
                self._count("shell_session")
            if told:
                self.kind = self._decide()
        if "docker_inspect_json" in self._counts and self._size < _MOST_DOCUMENT:
            self._document.append((no, text))
            self._size += len(text)

    def _count(self, form: str) -> None:
        if form:
            self._counts[form] = self._counts.get(form, 0) + 1

    @property
    def certain(self) -> bool:
        """Whether further lines no longer change the kind, once the head was read."""
        return self._vllm >= _ENOUGH and "docker_inspect_json" not in self._counts

    def document(self) -> tuple[tuple[int, str], ...]:
        """Return the lines from the first sign of an inspect document on, with their numbers."""
        return tuple(self._document)

    def _decide(self) -> str:
        counts = self._counts
        forms = {name: count for name, count in counts.items() if name != "shell_session"}
        best = max(forms, key=lambda name: forms[name], default="")
        if self._vllm >= 2:
            others = [name for name in ("kubectl_describe", "http_response", "dmesg") if name in counts]
            return "+".join(["vllm_log", *others]) if others else "vllm_log"
        if counts.get("shell_session", 0) >= 2 and len(forms) > 1:
            return "shell_session"
        return best or ("shell_session" if "shell_session" in counts else "vllm_log" if self._vllm else "")
