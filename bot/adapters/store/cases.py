"""Folded cases, kept in memory beside the ledger.

A case is only ever the fold of its entries: nothing of it is stored, so nothing of it can disagree with the record. A
kept case is used while the ledger still contains the entry it was folded up to, and folded on from there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bot.errors import StoreCorrupt
from playbooks.errors import MalformedMessage
from playbooks.evidence.chain import LedgerEntry
from playbooks.guiding.case import Case, fold, fold_one

_KEPT = 512


@dataclass(frozen=True, slots=True)
class Folded:
    """A case, and the hash of the newest entry folded in."""

    case: Case
    last_hash: str


class CaseCache:
    """The newest folded cases by incident; shared by all threads of a process."""

    def __init__(self, *, kept: int = _KEPT) -> None:
        self._kept = kept
        self._cases: OrderedDict[str, Folded] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, incident: str) -> Folded | None:
        """Return what is kept of an incident."""
        with self._lock:
            found = self._cases.get(incident)
            if found is not None:
                self._cases.move_to_end(incident)
            return found

    def keep(self, incident: str, folded: Folded) -> None:
        """Keep a case; the one longest unused makes room."""
        with self._lock:
            self._cases[incident] = folded
            self._cases.move_to_end(incident)
            while len(self._cases) > self._kept:
                self._cases.popitem(last=False)


def bring_up(
    incident: str, kept: Folded | None, *, last_hash: str, entries_after: Callable[[int], Iterable[LedgerEntry]]
) -> Folded:
    """Return the case folded up to the ledger's newest entry.

    kept: an earlier fold, or None; one that the ledger does not contain is passed over.
    last_hash: of the newest entry.

    Raises:
        StoreCorrupt: the entries do not fold, or do not end in `last_hash`.
    """
    if kept is not None and kept.last_hash == last_hash:
        return kept
    try:
        folded = _fold_on(kept, entries_after(kept.case.head_seq)) if kept is not None else None
        if folded is None or folded.last_hash != last_hash:
            folded = _fold_all(incident, entries_after(0))
    except MalformedMessage as error:
        raise StoreCorrupt(f"{incident}: the ledger cannot be folded: {error}") from error
    if folded.last_hash != last_hash:
        raise StoreCorrupt(f"{incident}: the ledger ends in {folded.last_hash[:16]}…, its row says {last_hash[:16]}…")
    return folded


def _fold_on(kept: Folded, entries: Iterable[LedgerEntry]) -> Folded | None:
    case, last_hash = kept.case, kept.last_hash
    for entry in entries:
        if entry.previous != last_hash:
            return None
        case, last_hash = fold_one(case, entry), entry.hash
    return Folded(case, last_hash)


def _fold_all(incident: str, entries: Iterable[LedgerEntry]) -> Folded:
    found = list(entries)
    return Folded(fold(incident, found), found[-1].hash if found else "")
