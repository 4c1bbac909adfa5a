"""What a log says of the engine itself: its version, its front end, the names of its processes."""

from __future__ import annotations

import ast
import re

from playbooks.secret_names import is_secret_name

_VERSION = re.compile(
    r"(?:\bversion[ =]+v?|vLLM API server version |LLM engine \(v|vLLM server version )(\d+\.\d+[\w.+]*)", re.IGNORECASE
)
_RUST = re.compile(r"RustFrontend|Launching Rust frontend")
_MOST = 64
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})\s*$")
_MOST_VALUE = 400


class EngineReader:
    """Collects the facts line by line."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.frontend: str | None = None
        self.arguments: dict[str, str] | None = None
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
        if self.arguments is None and "non-default args: {" in text and (match := _ARGUMENTS.search(text)):
            self.arguments = _arguments(match[1])
        if self.version is None and ("LLM engine (v" in text or "vLLM" in text or "  version " in text):
            match = _VERSION.search(text)
            if match:
                self.version = match[1].rstrip(").,")


def _arguments(text: str) -> dict[str, str] | None:
    """Read the dictionary that the engine prints; None where it is cut or holds more than plain values."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    if not isinstance(value, dict):
        return None
    return {str(name): str(given)[:_MOST_VALUE] for name, given in value.items() if not is_secret_name(str(name))}
