"""Gives the disk of a part of a file back while the file keeps its size: what is read there are zeros."""

from __future__ import annotations

import ctypes

_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02  # linux/falloc.h


def punch_hole(descriptor: int, start: int, end: int) -> bool:
    """Free the bytes from `start` up to `end` of an open file; False when the file system cannot, or there are none."""
    if end <= start:
        return False
    call = ctypes.CDLL(None, use_errno=True).fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return int(call(descriptor, _KEEP_SIZE | _PUNCH_HOLE, start, end - start)) == 0
