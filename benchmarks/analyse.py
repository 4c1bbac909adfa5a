"""The analyser against ripgrep on the same bytes in the same run: `python benchmarks/analyse.py [--mb 1000] [--pipe-mb 2000]`.

Ripgrep counts the lines that hold any literal of the catalogue (`rg -c -i -F -f`), the analyser judges them. Three materials:

- `serving`: one launch that served for days and failed at the end, lines as a busy server prints them.
- `restarts`: healthy launches of the labelled logs, one after another, and a failing one at the end.
- `shuffled`: the labelled logs in any order. The first failing launch is the answer, what follows is only counted.
- `apart`: the same, each log judged by an analyser of its own, to its last line (no early end).
- `matched`: lines of the labelled logs in any order, each asked of the catalogue (no early end).

Bars: half of ripgrep's speed; memory that does not grow with the input (at most 200 MB, fed through a pipe).
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from playbooks.catalog import load_catalogue
from playbooks.judging.first_failure import analyse_blocks, analyse_text
from playbooks.judging.matching import Matcher
from playbooks.reading.whole_lines import whole_lines
from tests.support.labels import labels

ROOT = Path(__file__).resolve().parents[1]
_CHUNK = 1 << 20
_ANSWERED = '(APIServer pid=4242) INFO:     10.0.%d.%d:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
_HEALTH = '(APIServer pid=4242) INFO:     10.0.%d.%d:%d - "GET /health HTTP/1.1" 200 OK\n'
_STATS = (
    "(APIServer pid=4242) INFO 12-01 %02d:%02d:%02d [loggers.py:257] Engine 000: Avg prompt throughput: %d.4 tokens/s, "
    "Avg generation throughput: %d.2 tokens/s, Running: %d reqs, Waiting: 0 reqs, GPU KV cache usage: %d.1%%, "
    "Prefix cache hit rate: 41.8%%\n"
)
_BETWEEN = b"---- the next log ----\n"
_END = 'EngineCore encountered a fatal error.\nTraceback (most recent call last):\n  File "/v/worker.py", line 1, in f\ntorch.AcceleratorError: CUDA error: an illegal memory access was encountered\n'


def _log(name: str) -> bytes:
    data = next((ROOT / "tests" / "logs").rglob(name)).read_bytes()
    return data if data.endswith(b"\n") else data + b"\n"


def _serving(dice: random.Random) -> Iterator[bytes]:
    started, ready, _stopped = _log("ok-minimal-r1.log").partition(b"Application startup complete.")
    yield started + ready + b"\n"
    while True:
        host = (dice.randrange(256), dice.randrange(256), dice.randrange(1024, 65000))
        kind = dice.random()
        if kind < 0.75:
            yield (_ANSWERED % host).encode()
        elif kind < 0.9:
            clock = (dice.randrange(24), dice.randrange(60), dice.randrange(60))
            yield (
                _STATS % (*clock, dice.randrange(9000), dice.randrange(3000), dice.randrange(90), dice.randrange(99))
            ).encode()
        else:
            yield (_HEALTH % host).encode()


def _restarts(dice: random.Random) -> Iterator[bytes]:
    healthy = [_log(name) for name in ("ok-minimal-r1.log", "ok-tp2-gloo.log", "docker-ok.log", "hybrid-granite.log")]
    while True:
        yield dice.choice(healthy)


def _shuffled(dice: random.Random) -> Iterator[bytes]:
    logs = [_log(label.path.name) for label in labels("real-vllm", "public")]
    while True:
        yield dice.choice(logs)


def _apart(dice: random.Random) -> Iterator[bytes]:
    for log in _shuffled(dice):
        yield log + _BETWEEN


def _lines_shuffled(dice: random.Random) -> Iterator[bytes]:
    logs = [_log(label.path.name) for label in labels("real-vllm", "public")]
    lines = [line + b"\n" for log in logs for line in log.split(b"\n") if line.strip()]
    while True:
        yield dice.choice(lines)


MATERIALS: dict[str, Callable[[random.Random], Iterator[bytes]]] = {
    "serving": _serving,
    "restarts": _restarts,
    "shuffled": _shuffled,
    "apart": _apart,
    "matched": _lines_shuffled,
}


def _write(path: Path, name: str, size: int) -> None:
    """Make a block of the material and repeat it: the dice are slower than the disk."""
    block = bytearray()
    for piece in MATERIALS[name](random.Random(7)):
        block += piece
        if len(block) >= min(size, 64 << 20):
            break
    with path.open("wb") as out:
        written = 0
        while written < size:
            written += out.write(block)
        out.write(_END.encode())


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from stream


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _judged(path: Path) -> str:
    with path.open("rb") as stream:
        finding = analyse_blocks(whole_lines(_chunks(stream)), load_catalogue())
    return f"{finding.error_class} at line {finding.root_line}"


def _each_judged(path: Path) -> str:
    failed = 0
    logs = path.read_bytes().split(_BETWEEN)
    for log in logs:
        failed += analyse_text(log, load_catalogue()).root_line is not None
    return f"{failed} of {len(logs)} failed"


def _all_matched(path: Path) -> str:
    match = Matcher.of(load_catalogue()).match
    nothing = match("")
    return f"{sum(match(line.decode('utf-8', 'replace'), 'vllm_log') is not nothing for line in _lines(path))} lines with a candidate"


_HOW: dict[str, Callable[[Path], str]] = {"matched": _all_matched, "apart": _each_judged}


def _timed(work: Callable[[], object]) -> tuple[float, object]:
    begun = time.perf_counter()
    done = work()
    return time.perf_counter() - begun, done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--mb", type=int, default=200, help="size of each material")
    parser.add_argument("--pipe-mb", type=int, default=1000, help="size fed through a pipe to see the memory; 0 = not")
    parser.add_argument("--material", choices=[*MATERIALS], action="append")
    parser.add_argument("--fed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fed:
        finding = analyse_blocks(whole_lines(_chunks(sys.stdin.buffer)), load_catalogue())
        print(json.dumps({"peak_mb": _peak_mb(), "root_line": finding.root_line}))
        return 0
    rg = shutil.which("rg")
    if rg is None:
        print("expected ripgrep on PATH: apt-get install ripgrep")
        return 1
    catalogue = load_catalogue()
    patterns = (*catalogue.benign, *catalogue.signatures, *catalogue.derived, *catalogue.markers)
    with tempfile.TemporaryDirectory(prefix="baseline-bench-") as name:
        folder = Path(name)
        literals = folder / "literals.txt"
        literals.write_text("\n".join(sorted({literal for one in patterns for literal in one.literals})))
        for material in options.material or MATERIALS:
            path = folder / f"{material}.log"
            _write(path, material, options.mb << 20)
            _timed(path.read_bytes)  # both read it from memory
            search = partial(subprocess.check_output, [rg, "-c", "-i", "-F", "-f", literals, path], text=True)
            peer_s, counted = _timed(search)
            own_s, said = _timed(partial(_HOW.get(material, _judged), path))
            size = path.stat().st_size / 1e6
            print(
                f"{material:9} {size:6.0f} MB  ripgrep {size / peer_s:6.1f} MB/s ({str(counted).strip()} lines match)"
                f"  analyser {size / own_s:6.1f} MB/s  ratio {peer_s / own_s:.3f} (bar 0.5)  {said}",
                flush=True,
            )
            path.unlink()
    if options.pipe_mb:
        for size in (options.pipe_mb // 10, options.pipe_mb):
            print(f"pipe      {size:6.0f} MB  {_through_a_pipe(size << 20)} (bar: 200 MB, flat)")
    return 0


def _peak_mb() -> float:
    """Read this program's own high-water mark; `ru_maxrss` would count what its parent held before it was started."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def _through_a_pipe(size: int) -> str:
    with subprocess.Popen([sys.executable, __file__, "--fed"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        block = bytearray()
        for piece in _serving(random.Random(7)):
            block += piece
            if len(block) > 8 * _CHUNK:
                break
        written = 0
        while written < size:
            child.stdin.write(block)
            written += len(block)
        child.stdin.write(_END.encode())
        child.stdin.close()
        told = json.loads(child.stdout.read())
    return f"peak {told['peak_mb']:.0f} MB, root at line {told['root_line']}"


if __name__ == "__main__":
    sys.exit(main())
