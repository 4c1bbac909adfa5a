"""Runs the NVML probe in a fresh, killable process: a hang costs its time-out and is a field, never an exception."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time

from playbooks.messages import FieldValue
from playbooks.vocabulary import FieldStatus
from workers.adapters.attempted import failed
from workers.ports import Facts

_PROBE = [sys.executable, "-m", "workers.adapters.nvml_probe"]
TIMEOUT_S = 10.0
"""Driver start-up without persistence mode takes several seconds; beyond this it hangs (Xid 119)."""


class NvmlReader:
    """The port `GpuReader` over nvidia-ml-py."""

    def __init__(self, *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    def read(self) -> Facts:
        """Return `nvml.*` and `gpu.*`; with a hung driver the one field that says so."""
        source = "nvml probe"
        child = subprocess.Popen(_PROBE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)  # noqa: S603 - our own module
        try:
            out, err = child.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired as late:
            child.kill()
            _abandon(child)
            hung = FieldValue(
                status=FieldStatus.TIMEOUT,
                value="hang",
                source=source,
                detail=f"no answer within {self._timeout_s:.0f} s",
            )
            return {**_fields(late.output or b""), "nvml.error": hung}
        found = _fields(out)
        if child.returncode or not found:
            why = err.decode(errors="replace").strip().splitlines()[-1:] or [f"ended with {child.returncode}"]
            return {**found, "nvml.error": failed(FieldStatus.ERROR, source, why[0])}
        return found

    def watch(self) -> NvmlWatch:
        """Begin to sample the memory in use."""
        return NvmlWatch()


class NoGpus:
    """The port `GpuReader` for a recorded root: NVML speaks of this machine only."""

    def read(self) -> Facts:
        """Return that NVML was not asked."""
        return {"nvml.error": failed(FieldStatus.UNSUPPORTED, "nvml probe", "not asked for a recorded root")}

    def watch(self) -> NvmlWatch:
        """Begin to sample; there is nothing to sample of a recorded root."""
        return NvmlWatch()


class NvmlWatch:
    """Samples of GPU memory from a process that is ended by `close`."""

    def __init__(self) -> None:
        self._samples: list[tuple[int, tuple[int | None, ...]]] = []
        self._started_ms = round(time.monotonic() * 1000)
        self._child = subprocess.Popen(  # noqa: S603 - our own module
            [*_PROBE, "--watch"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )
        self._thread = threading.Thread(target=self._collect, name="gpu-memory", daemon=True)
        self._thread.start()

    def samples(self) -> tuple[tuple[int, int], ...]:
        """Return what was sampled so far, over all GPUs that told."""
        return tuple((at, sum(one for one in used if one is not None)) for at, used in tuple(self._samples))

    def by_gpu(self) -> dict[str, tuple[tuple[int, int], ...]]:
        """Return what was sampled so far of each GPU; a second in which it did not tell is left out."""
        found: dict[str, list[tuple[int, int]]] = {}
        for at, used in tuple(self._samples):
            for index, one in enumerate(used):
                if one is not None:
                    found.setdefault(f"GPU {index}", []).append((at, one))
        return {name: tuple(samples) for name, samples in found.items()}

    def close(self) -> None:
        """Sample no more."""
        self._child.kill()
        self._thread.join(timeout=1)
        _abandon(self._child)

    def _collect(self) -> None:
        for line in self._child.stdout or ():
            at, *used = line.split()
            told = tuple(None if one == b"-" else int(one) for one in used)
            self._samples.append((max(0, int(at) - self._started_ms), told))


def _fields(out: bytes) -> dict[str, FieldValue]:
    """Return what was printed; a line that was cut is left out."""
    found: dict[str, FieldValue] = {}
    for line in out.splitlines():
        with contextlib.suppress(ValueError):
            found |= {name: FieldValue.model_validate(field) for name, field in json.loads(line).items()}
    return found


def _abandon(child: subprocess.Popen[bytes]) -> None:
    # a process that hangs in the kernel does not die: it is not waited for without limit
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=0.5)
    for pipe in (child.stdout, child.stderr):
        if pipe is not None:
            pipe.close()
