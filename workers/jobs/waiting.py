"""Wait for a container engine that may not answer, and give way to a cancel meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")
_LOOK_S = 0.2


def while_asked_for(call: Callable[[], T], *, check: Callable[[], None], undo: Callable[[T], object]) -> T:
    """Return what the call returns; when `check` raises first, the call is left to itself.

    A call that was left and comes back all the same is undone: what it made late is not kept. What the call raises is raised
    here; after it was left, nobody is there to be told.
    """
    left = _Left(call, undo)
    thread = threading.Thread(target=left.run, name="container-engine", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
        if thread.is_alive():
            try:
                check()
            except BaseException:
                left.leave()
                raise
    return left.result()


class _Left(Generic[T]):
    def __init__(self, call: Callable[[], T], undo: Callable[[T], object]) -> None:
        self._call = call
        self._undo = undo
        self._lock = threading.Lock()
        self._is_left = False
        self._box: list[tuple[bool, T | BaseException]] = []

    def run(self) -> None:
        found: tuple[bool, T | BaseException]
        try:
            found = (True, self._call())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            found = (False, error)
        with self._lock:
            self._box.append(found)
            undone = self._is_left and found[0]
        if undone:
            self._undo(found[1])  # type: ignore[arg-type]

    def leave(self) -> None:
        """Wait no more; what came in the very last moment is undone too."""
        with self._lock:
            self._is_left = True
            late = self._box[0] if self._box else None
        if late is not None and late[0]:
            self._undo(late[1])  # type: ignore[arg-type]

    def result(self) -> T:
        """Return the value, or raise what was raised."""
        fine, value = self._box[0]
        if fine:
            return value  # type: ignore[return-value]
        raise cast("BaseException", value)
