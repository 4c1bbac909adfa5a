"""The kernel log of this boot, read without waiting: the raw lines, and its Xid and NVRM messages as fields."""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path

from workers.adapters.attempted import attempt
from workers.ports import Facts

_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:,\s*(.*))?")
_WORTH_SHOWING = re.compile(r"NVRM:|nvidia-nvswitch|RmInitAdapter|Key was rejected|nouveau")
_MOST = 200


def kernel_lines(path: Path = Path("/dev/kmsg"), *, most: int = 5000) -> list[str]:
    """Return the last lines as `[seconds.micros] text`.

    Raises:
        PermissionError: the kernel shows its log to root only.
        FileNotFoundError: no such device, as in most containers.
    """
    lines: deque[str] = deque(maxlen=most)
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace").splitlines()[-most:]
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        while True:
            try:
                record = os.read(handle, 8192)
            except BlockingIOError:
                break
            except BrokenPipeError:
                continue  # overwritten while we read: the next read goes on behind it
            if not record:
                break
            head, _, text = record.decode("utf-8", errors="replace").partition(";")
            micros = int(head.split(",")[2])
            lines.append(f"[{micros // 1_000_000:5d}.{micros % 1_000_000:06d}] {text.splitlines()[0] if text else ''}")
    finally:
        os.close(handle)
    return list(lines)


def kernel_facts(root: Path) -> Facts:
    """Return `kernel.xid` and `kernel.nvrm`."""
    source = "/dev/kmsg"
    lines = attempt(source, lambda: kernel_lines(root / "dev/kmsg"))
    if lines.value is None:
        return {"kernel.xid": lines, "kernel.nvrm": lines}
    xids = [
        {"bus_id": found[1], "xid": int(found[2]), "text": (found[3] or "")[:300]}
        for line in lines.value
        if (found := _XID.search(line))
    ]
    others = [line[:300] for line in lines.value if _WORTH_SHOWING.search(line) and not _XID.search(line)]
    return {
        "kernel.xid": attempt(source, lambda: xids[-_MOST:]),
        "kernel.nvrm": attempt(source, lambda: others[-_MOST:]),
    }
