"""What a log says of the engine itself: its version, its front end, the names of its processes."""

from __future__ import annotations

import re

_VERSION = re.compile(
    r"(?:\bversion[ =]+v?|vLLM API server version |LLM engine \(v|vLLM server version )(\d+\.\d+[\w.+]*)", re.IGNORECASE
)
_RUST = re.compile(r"RustFrontend|Launching Rust frontend")
_MOST = 64


class EngineReader:
    """Collects the facts line by line."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.frontend: str | None = None
        self._processes: dict[str, None] = {}

    @property
    def processes(self) -> tuple[str, ...]:
        """Names seen in prefixes, in order of appearance."""
        return tuple(self._processes)

    def feed(self, text: str, process: str) -> None:
        """Take one unwrapped line."""
        if process and len(self._processes) < _MOST:
            self._processes.setdefault(process)
        if process.startswith("RustFrontend") or ("Rust" in text and _RUST.search(text)):
            self.frontend = "rust"
        elif self.frontend is None and (process.startswith(("APIServer", "ApiServer")) or "vllm.entrypoints" in text):
            self.frontend = "python"
        if self.version is None and ("LLM engine (v" in text or "vLLM" in text or "  version " in text):
            match = _VERSION.search(text)
            if match:
                self.version = match[1].rstrip(").,")
