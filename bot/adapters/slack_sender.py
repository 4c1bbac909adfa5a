"""Sends what flows left in the outbox to Slack, and keeps the dashboards current.

A row is marked before its call; a marked row that is found again (crash, answer lost on the way) is looked up by the
message's metadata, and only then sent. Evidence first, dashboards last and at most once in three seconds each. What Slack
refuses for good goes once as plain text, is then marked undeliverable and passed over; nothing here blocks an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import structlog

from bot.adapters import slack_messages as render
from bot.adapters.slack_calls import ABSENT, GONE, SlackCalls
from bot.adapters.slack_files import SlackFiles
from bot.adapters.slack_find import find_message
from bot.errors import (
    ArtifactError,
    SlackAccessLost,
    SlackError,
    SlackOutcomeUnclear,
    SlackRateLimited,
    SlackRefused,
    SlackRefusedContent,
)
from bot.flows.showing import dashboard_of
from bot.ports import OutboxKind, OutboxRow, OutboxState

if TYPE_CHECKING:
    from bot.blocks.elements import Message
    from bot.flows.services import Services
    from bot.ports import Incident

DASHBOARD_FLOOR_S = 3.0
IDLE_S = 30.0
ACCESS_LOST_S = 60.0
BOT_ABSENT_S = 20.0
FILE_TRIES = 3
SHARE_TRIES = 4
"""Slack shares a file later, or never: after so many looks its place in the thread is taken by a line that says so."""
_BACKOFF_S = (2, 5, 15, 60)
_POSTS = {OutboxKind.PARENT, OutboxKind.EVIDENCE, OutboxKind.NOTE, OutboxKind.DIRECT}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a row goes."""

    channel: str
    thread_ts: str | None = None


class SlackSender:
    """The one sender of a workspace; `send_due` is one round."""

    def __init__(
        self, services: Services, calls: SlackCalls, files: SlackFiles, *, monotonic: Callable[[], float]
    ) -> None:
        self._services = services
        self._calls = calls
        self._files = files
        self._monotonic = monotonic
        self._posted_at: dict[str, float] = {}

    def send_due(self) -> float:
        """Send what is due now; returns the seconds until the next round is worth it (0 = at once)."""
        now = self._services.clock.now()
        with self._services.store.read() as reading:
            rows = reading.due_messages(now=now)
            due = reading.next_due_at()
        waits = [IDLE_S]
        sent = 0
        for row in rows:
            wait = self._send(row)
            sent += wait == 0
            waits.append(wait or IDLE_S)
        waits.append(self._dashboards())
        if sent:
            return 0.0
        if due is not None and due > now:
            waits.append((due - now).total_seconds())
        return max(min(waits), 0.05)

    # one row

    def _send(self, row: OutboxRow) -> float:
        """Send one row; returns 0 when it is through, else the seconds to wait."""
        with self._services.store.read() as reading:
            incident = reading.incident(row.incident) if row.incident else None
        place = _place(row, incident)
        if place is None:
            return self._not_yet(row, incident)
        method = _method(row)
        if (wait := self._calls.wait(method, place.channel)) > 0:
            return wait
        try:
            if row.state is OutboxState.MARKED and (ts := self._sent_before(row, place)) is not None:
                self._done(row, ts, incident)
                return 0.0
            with self._services.store.write() as tx:
                tx.update_outbox(row.id, state=OutboxState.MARKED, attempts=row.attempts + 1)
            self._done(row, self._deliver(row, place), incident)
        except SlackError as error:
            return self._failed(row, error, place)
        except ArtifactError as error:
            self._undeliverable(row, str(error))
        return 0.0

    def _deliver(self, row: OutboxRow, place: _Place) -> str | None:
        match row.kind:
            case OutboxKind.PARENT | OutboxKind.EVIDENCE | OutboxKind.DIRECT:
                return self._post(row, place, self._message(row))
            case OutboxKind.NOTE:
                return self._note(row, place)
            case OutboxKind.EPHEMERAL:
                self._calls.call("chat.postEphemeral", place.channel, **_ephemeral(row))
                return None
            case OutboxKind.FILE:
                return self._file(row, place)
            case OutboxKind.JOB | OutboxKind.FETCH:
                return None

    def _message(self, row: OutboxRow) -> Message:
        with self._services.store.read() as reading:
            return render.message_of(self._services, reading, row, self._services.clock.now())

    def _post(self, row: OutboxRow, place: _Place, message: Message) -> str:
        answer = self._calls.call(
            "chat.postMessage",
            place.channel,
            **message.payload(),
            **({"thread_ts": place.thread_ts} if place.thread_ts else {}),
            metadata=render.metadata_of(row),
            unfurl_links=False,
            unfurl_media=False,
        )
        return str(answer.get("ts", ""))

    def _note(self, row: OutboxRow, place: _Place) -> str:
        slot = row.payload.get("slot")
        if slot and row.incident:
            with self._services.store.read() as reading:
                known = reading.message_ts(row.incident, str(slot))
            if known is not None:
                try:
                    message = self._message(row)
                    self._calls.call("chat.update", place.channel, ts=known, **message.payload())
                except SlackRefused as error:
                    if error.error not in GONE:
                        raise
                else:
                    return known
        return self._post(row, place, self._message(row))

    def _file(self, row: OutboxRow, place: _Place) -> str:
        sha256, name = str(row.payload["sha256"]), str(row.payload.get("name", "file.txt"))
        title = str(row.payload.get("title", name))
        if (shared_as := row.payload.get("file_id")) is not None:
            return self._look_for_share(row, place, str(shared_as), title)
        file_id = row.external_id
        if file_id is None:
            data = self._services.artifacts.get(sha256)
            url, file_id = self._files.reserve(name, len(data), alt=str(row.payload.get("alt", "")))
            with self._services.store.write() as tx:
                tx.update_outbox(row.id, external_id=file_id)
            self._files.upload(url, data)
        elif self._files.shared(file_id, place.channel):
            return file_id
        self._files.complete(file_id, title, channel=place.channel, thread_ts=place.thread_ts)
        if not self._files.shared(file_id, place.channel):
            self._look_later(row, place, file_id)
        return file_id

    def _look_later(self, row: OutboxRow, place: _Place, file_id: str) -> None:
        """Slack took the file and does not show it yet: look again apart from the thread, so that nothing waits for it."""
        now = self._services.clock.now()
        payload = {**row.payload, "file_id": file_id, "channel": place.channel, "thread_ts": place.thread_ts}
        with self._services.store.write() as tx:
            due = now + timedelta(seconds=_BACKOFF_S[0])
            tx.enqueue(OutboxKind.FILE, payload, incident=None, at=now, not_before=due)

    def _look_for_share(self, row: OutboxRow, place: _Place, file_id: str, title: str) -> str:
        if not self._files.shared(file_id, place.channel):
            if row.attempts + 1 < SHARE_TRIES:
                raise SlackOutcomeUnclear(f"{file_id} is not shared yet", error="not_shared")
            self._post(row, place, render.not_shared(title))
        return file_id

    def _sent_before(self, row: OutboxRow, place: _Place) -> str | None:
        """Look a marked row up; None when Slack does not have it."""
        if row.kind in _POSTS:
            return find_message(self._calls, row, channel=place.channel, thread_ts=place.thread_ts)
        return None

    def _done(self, row: OutboxRow, external_id: str | None, incident: Incident | None) -> None:
        with self._services.store.write() as tx:
            tx.update_outbox(row.id, state=OutboxState.DONE, external_id=external_id, error=None)
            if row.kind is OutboxKind.PARENT and incident is not None and external_id:
                tx.set_thread(incident.id, external_id)
                self._posted_at[incident.id] = self._monotonic()
            slot = row.payload.get("slot")
            if row.kind is OutboxKind.NOTE and slot and row.incident and external_id:
                tx.set_message_ts(row.incident, str(slot), external_id)

    # what went wrong

    def _failed(self, row: OutboxRow, error: SlackError, place: _Place) -> float:
        log.warning("sender.failed", row=row.id, kind=row.kind.value, incident=row.incident, error=str(error))
        match error:
            case SlackRateLimited():
                return self._again(row, error, error.retry_after_s, sent=False)
            case SlackAccessLost():
                return self._again(row, error, ACCESS_LOST_S, sent=False)
            case SlackOutcomeUnclear():
                return self._again(row, error, float(_BACKOFF_S[min(row.attempts, len(_BACKOFF_S) - 1)]), sent=True)
            case SlackRefused() | SlackRefusedContent() if row.external_id is not None and row.attempts < FILE_TRIES:
                # reserved in an earlier life, and perhaps never uploaded: from the beginning
                with self._services.store.write() as tx:
                    tx.update_outbox(row.id, state=OutboxState.WAITING, external_id=None)
            case SlackRefusedContent():
                self._plain(row, place, error)
            case _ if row.incident is not None and error.error in ABSENT:
                self._invite(row, place)
                return self._again(row, error, BOT_ABSENT_S * min(row.attempts + 1, 15), sent=False)
            case _:
                self._undeliverable(row, error.error)
        return 0.0

    def _again(self, row: OutboxRow, error: SlackError, seconds: float, *, sent: bool) -> float:
        """Keep the row for later; `sent` = it may have taken effect, so it stays marked and is looked up first."""
        with self._services.store.write() as tx:
            tx.update_outbox(
                row.id,
                state=OutboxState.MARKED if sent else OutboxState.WAITING,
                not_before=self._services.clock.now() + timedelta(seconds=seconds),
                error=str(error),
            )
        return seconds

    def _plain(self, row: OutboxRow, place: _Place, error: SlackError) -> None:
        """Slack does not take the blocks: the text alone, once."""
        text = self._message(row).text if row.kind is not OutboxKind.FILE else str(row.payload.get("title", ""))
        try:
            answer = self._calls.call(
                "chat.postMessage",
                place.channel,
                text=render.plain_text(text),
                **({"thread_ts": place.thread_ts} if place.thread_ts else {}),
                metadata=render.metadata_of(row),
            )
        except (SlackRefused, SlackRefusedContent) as again:
            self._undeliverable(row, f"{error.error}, then {again.error}")
        except SlackError as again:
            self._again(row, again, again.retry_after_s or 5.0, sent=isinstance(again, SlackOutcomeUnclear))
        else:
            with self._services.store.read() as reading:
                incident = reading.incident(row.incident) if row.incident else None
            self._done(row, str(answer.get("ts", "")), incident)

    def _undeliverable(self, row: OutboxRow, why: str) -> None:
        log.error("sender.undeliverable", row=row.id, kind=row.kind.value, incident=row.incident, error=why)
        with self._services.store.write() as tx:
            tx.update_outbox(row.id, state=OutboxState.UNDELIVERABLE, error=why)
            if row.incident:
                tx.want_dashboard(row.incident)

    def _not_yet(self, row: OutboxRow, incident: Incident | None) -> float:
        """A reply without a thread: its parent is on its way, or was refused for good."""
        if row.incident is None or incident is None:
            self._undeliverable(row, "no channel to send it to")
            return 0.0
        self._undeliverable(row, "the case has no parent message")
        return 0.0

    def _invite(self, row: OutboxRow, place: _Place) -> None:
        """Tell the owner, once, that the app is not in the channel yet; the case itself is safe."""
        if row.attempts > 0:
            return
        with self._services.store.write() as tx:
            incident = tx.incident(row.incident) if row.incident else None
            if incident is None:
                return
            message = render.invitation(incident, place.channel)
            now = self._services.clock.now()
            tx.enqueue(OutboxKind.DIRECT, {"channel": incident.owner, **message.payload()}, incident=None, at=now)

    # dashboards

    def _dashboards(self) -> float:
        """Bring dashboards up to their wanted revision; returns the seconds until one may go."""
        wait = IDLE_S
        for incident_id, revision in self._services.store.dashboards():
            age = self._monotonic() - self._posted_at.get(incident_id, -DASHBOARD_FLOOR_S)
            pause = max(DASHBOARD_FLOOR_S - age, self._calls.wait("chat.update"))
            if pause > 0:
                wait = min(wait, pause)
                continue
            try:
                self._dashboard(incident_id, revision)
            except SlackError as error:
                log.warning("sender.dashboard", incident=incident_id, error=str(error))
                wait = min(wait, error.retry_after_s or 5.0)
                self._posted_at[incident_id] = self._monotonic() + (error.retry_after_s or 5.0)
        return wait

    def _dashboard(self, incident_id: str, revision: int) -> None:
        with self._services.store.read() as reading:
            incident = reading.incident(incident_id)
            if incident is None or incident.thread_ts is None:
                return
            shown = dashboard_of(self._services, reading, incident, self._services.clock.now())
            moved = reading.message_ts(incident_id, "dashboard")
        message = render.dashboard_message(shown, incident.language)
        self._posted_at[incident_id] = self._monotonic()
        try:
            self._calls.call("chat.update", incident.channel, ts=moved or incident.thread_ts, **message.payload())
        except SlackRefused as error:
            if error.error not in GONE:
                log.warning("sender.dashboard_refused", incident=incident_id, error=error.error)
            else:
                self._dashboard_anew(incident, message)
        except SlackRefusedContent as error:
            log.warning("sender.dashboard_refused", incident=incident_id, error=error.error)
        self._services.store.dashboard_posted(incident_id, revision)

    def _dashboard_anew(self, incident: Incident, message: Message) -> None:
        """The parent was deleted: the dashboard goes on as a reply in its thread."""
        answer = self._calls.call(
            "chat.postMessage", incident.channel, thread_ts=incident.thread_ts, **message.payload()
        )
        with self._services.store.write() as tx:
            tx.set_message_ts(incident.id, "dashboard", str(answer.get("ts", "")))


def _place(row: OutboxRow, incident: Incident | None) -> _Place | None:
    match row.kind:
        case OutboxKind.PARENT:
            return None if incident is None else _Place(incident.channel)
        case OutboxKind.EVIDENCE | OutboxKind.NOTE | OutboxKind.FILE if incident is not None:
            return None if incident.thread_ts is None else _Place(incident.channel, incident.thread_ts)
        case _:
            channel = row.payload.get("channel")
            return _Place(str(channel), row.payload.get("thread_ts")) if channel else None


def _method(row: OutboxRow) -> str:
    match row.kind:
        case OutboxKind.EPHEMERAL:
            return "chat.postEphemeral"
        case OutboxKind.FILE:
            return "files.completeUploadExternal"
        case _:
            return "chat.postMessage"


def _ephemeral(row: OutboxRow) -> dict[str, Any]:
    return {key: row.payload[key] for key in ("user", "text", "blocks", "thread_ts") if row.payload.get(key)}
