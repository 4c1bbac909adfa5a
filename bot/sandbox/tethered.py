"""Runs a command that ends when its parent does: `python -m bot.sandbox.tethered PARENT_PID COMMAND…` (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGTERM at the parent's death, then become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - the supervisor's own command, no shell


if __name__ == "__main__":
    main()
