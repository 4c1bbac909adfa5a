"""Reads the files that people dropped in Slack, one after the other, and hands them to the flows.

A file is remembered before Slack gets its answer, so nothing dropped is lost when the bot ends in between. What cannot be
read is said where it was dropped.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from bot.blocks.notices import unreadable
from bot.errors import FileNotReadable, Repeated, SlackAccessLost, SlackError
from bot.flows.analyse_log import analyse_log
from bot.flows.once import once, reply
from bot.flows.record_log import record_log
from bot.flows.refusing import EXPECTED, in_words
from bot.flows.showing import Asker, language_for
from bot.ports import OutboxKind, OutboxRow, OutboxState
from playbooks.reading.binary_forms import binary_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bot.adapters.slack_files import SlackFiles
    from bot.blocks.elements import Message
    from bot.flows.services import Services

TRIES = 5
IDLE_S = 30.0
_RETRY_S = (2, 5, 15, 30, 60)
_PACKED = (".tar.zst", ".zip", ".xz", ".bz2", ".tar", ".tar.gz", ".tgz", ".7z")
log = structlog.get_logger(__name__)


class SlackFetcher:
    """Reads what is waiting; `send_due` is one round, as the senders have it."""

    def __init__(self, services: Services, files: SlackFiles) -> None:
        self._services = services
        self._files = files

    def send_due(self) -> float:
        """Read the files that are due; returns the seconds until the next round is worth it."""
        now = self._services.clock.now()
        with self._services.store.read() as reading:
            rows = reading.outbox(states=[OutboxState.WAITING, OutboxState.MARKED], kinds=[OutboxKind.FETCH], limit=20)
        due = [row for row in rows if row.not_before <= now]
        for row in due:
            self._fetch(row)
        if due:
            return 0.0
        return min((max((row.not_before - now).total_seconds(), 0.1) for row in rows), default=IDLE_S)

    def _fetch(self, row: OutboxRow) -> None:
        asker = Asker(
            user=str(row.payload["user"]),
            channel=str(row.payload["channel"]),
            key=f"fetch:{row.id}:{row.created_at.timestamp()}",
        )
        name = str(row.payload["file"].get("name") or "dropped.log")
        try:
            if name.lower().endswith(_PACKED):
                raise FileNotReadable(
                    "archives, and packed files other than .gz and .zst, are not unpacked here; drop the log itself, or as .gz or .zst"
                )
            self._take(row, asker, name)
        except Repeated:
            pass
        except FileNotReadable as error:
            self._say(row, asker, self._unreadable(asker, name, str(error)))
        except EXPECTED as error:
            self._say(row, asker, in_words(self._services, asker, error))
        except SlackError as error:
            log.warning("fetcher.failed", row=row.id, error=str(error))
            if row.attempts + 1 < TRIES or isinstance(error, SlackAccessLost):
                self._later(row, error)
                return
            self._say(row, asker, self._unreadable(asker, name, str(error)))
        with self._services.store.write() as tx:
            tx.update_outbox(row.id, state=OutboxState.DONE, error=None)

    def _take(self, row: OutboxRow, asker: Asker, name: str) -> None:
        thread = row.payload.get("thread_ts")
        with self._services.store.read() as reading:
            incident = reading.incident_in_thread(asker.channel, str(thread)) if thread else None
        chunks = _text(self._files.read(row.payload["file"]))
        if incident is not None:
            record_log(self._services, asker, incident.id, name=name, chunks=chunks)
        else:
            analyse_log(
                self._services,
                asker,
                name=name,
                chunks=chunks,
                answer_in=(self._thread(row),),
                only_launches=not row.payload.get("addressed"),
            )

    def _say(self, row: OutboxRow, asker: Asker, message: Message) -> None:
        try:
            with once(self._services, asker) as tx:
                reply(tx, self._services, asker, message, thread_ts=self._thread(row))
        except Repeated:
            log.info("fetcher.said_before", row=row.id)

    def _thread(self, row: OutboxRow) -> str | None:
        """Answer in the thread of the file; in a direct message, where threads hide, at top level."""
        is_direct = str(row.payload["channel"]).startswith("D")
        thread = row.payload.get("thread_ts") or (None if is_direct else row.payload.get("ts"))
        return str(thread) if thread else None

    def _unreadable(self, asker: Asker, name: str, why: str) -> Message:
        with self._services.store.read() as reading:
            return unreadable(name, why, language_for(reading, asker))

    def _later(self, row: OutboxRow, error: SlackError) -> None:
        pause = error.retry_after_s or _RETRY_S[min(row.attempts, len(_RETRY_S) - 1)]
        with self._services.store.write() as tx:
            tx.update_outbox(
                row.id,
                attempts=row.attempts + 1,
                not_before=self._services.clock.now() + timedelta(seconds=pause),
                error=str(error),
            )


def _text(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Hand a file on, unless its first bytes say that it is no text.

    Raises:
        FileNotReadable: it is a picture, an archive or the like.
    """
    first = next(chunks, b"")
    form = binary_form(first)
    if form is not None:
        raise FileNotReadable(f"expected a log as text, found {form}")
    return itertools.chain([first], chunks)
