"""Errors of the bot.

    BotError                         root of everything the bot raises on purpose
    ├── StoreError                   the incident store could not do what was asked; nothing of it was recorded
    │   ├── StoreUnavailable         it does not answer, or its schema is not this version's
    │   ├── StoreBusy                another writer held it for longer than we wait
    │   ├── StoreConflict            a rule of the store refuses the row: it is there already, or points nowhere
    │   ├── StoreCorrupt             a stored row cannot be read as what it should be
    │   ├── UnknownIncident          no incident of that id
    │   └── UnknownJob               no job of that id
    ├── ArtifactError                the artifact store could not do what was asked
    │   ├── ArtifactsUnavailable     the place of the files does not answer or is full
    │   ├── DigestMismatch           the bytes are not those that the digest names
    │   └── UnknownArtifact          no stored file of that digest
    ├── SlackError                   a call to Slack did not go through
    │   ├── SlackRateLimited         Slack asked to wait
    │   ├── SlackOutcomeUnclear      no answer, or one that does not say whether the call took effect
    │   ├── SlackAccessLost          the token is revoked, expired or of the wrong kind
    │   ├── SlackRefusedContent      Slack does not accept what was to be said
    │   └── SlackRefused             Slack refuses for good: archived, not there, not allowed
    ├── ChartNotDrawn                a chart could not be drawn; the record holds its figures all the same
    ├── FileNotReadable              a file dropped in Slack could not be read; the message says why
    ├── Refused                      a flow does not do what was asked, and says why to the asker; nothing was recorded
    ├── Repeated                     this delivery was taken already; nothing is done twice
    ├── QueueError                   a job could not be handed to the broker; it stays recorded and is sent again
    │   └── BrokerUnavailable        the broker does not answer
    ├── NodeRefused                  what a node sent is refused; the message says what was expected
    │   ├── NotThatNode              the message is about another node's job, or of a node nobody enrolled
    │   ├── ClockApart               the node's clock is too far off the bot's
    │   ├── Replayed                 an older message of its kind than one that was taken already
    │   └── StaleFence               the job's lease is no longer this worker's
    ├── JobNotAsked                  a job is not asked for; nothing was recorded
    │   ├── NodeUnknown              nobody enrolled a node of that name
    │   ├── NodeSilent               the node has not been heard of lately
    │   ├── NodeHeld                 another job or incident holds the node's GPUs; the message names it
    │   └── NodeUnfit                a launch over several nodes cannot be done with this node as it is set up
    ├── SandboxError                 the sandbox cannot start; the message says what was expected and found
    └── InvalidSettings              a setting cannot be used; the message names it and the expected form

A launch that fails is data, never an exception. `docs/errors.md` shows the same tree; a test compares them.
"""

from __future__ import annotations

from typing import Any


class BotError(Exception):
    """Root of everything the bot raises on purpose."""


class StoreError(BotError):
    """The incident store could not do what was asked; nothing of it was recorded."""


class StoreUnavailable(StoreError):
    """The store does not answer, or its schema is not this version's."""


class StoreBusy(StoreError):
    """Another writer held the store for longer than we wait."""


class StoreConflict(StoreError):
    """A rule of the store refuses the row: it is there already, or points nowhere."""


class StoreCorrupt(StoreError):
    """A stored row cannot be read as what it should be."""


class UnknownIncident(StoreError):
    """No incident of that id."""


class UnknownJob(StoreError):
    """No job of that id."""


class ArtifactError(BotError):
    """The artifact store could not do what was asked."""


class ArtifactsUnavailable(ArtifactError):
    """The place of the files does not answer or is full."""


class DigestMismatch(ArtifactError):
    """The bytes are not those that the digest names."""


class UnknownArtifact(ArtifactError):
    """No stored file of that digest."""


class ChartNotDrawn(BotError):
    """A chart could not be drawn; the record holds its figures all the same."""


class SlackError(BotError):
    """A call to Slack did not go through; `error` is Slack's own word for it."""

    def __init__(self, message: str, *, error: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.error = error
        self.retry_after_s = retry_after_s


class SlackRateLimited(SlackError):
    """Slack asked to wait."""


class SlackOutcomeUnclear(SlackError):
    """No answer, or one that does not say whether the call took effect."""


class SlackAccessLost(SlackError):
    """The token is revoked, expired or of the wrong kind."""


class SlackRefusedContent(SlackError):
    """Slack does not accept what was to be said."""


class SlackRefused(SlackError):
    """Slack refuses for good: channel archived, user not there, file not allowed."""


class FileNotReadable(BotError):
    """A file dropped in Slack could not be read; the message says why."""


class Refused(BotError):
    """A flow does not do what was asked; `blocks` is how the asker is told. Nothing was recorded."""

    def __init__(self, text: str, *, blocks: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.blocks = blocks


class Repeated(BotError):
    """This delivery was taken already; nothing is done twice."""


class QueueError(BotError):
    """A job could not be handed to the broker; it stays recorded and is sent again."""


class BrokerUnavailable(QueueError):
    """The broker does not answer."""


class NodeRefused(BotError):
    """What a node sent is refused; the message says what was expected."""


class NotThatNode(NodeRefused):
    """The message is about another node's job, or of a node nobody enrolled."""


class ClockApart(NodeRefused):
    """The node's clock is too far off the bot's."""


class Replayed(NodeRefused):
    """An older message of its kind than one that was taken already."""


class StaleFence(NodeRefused):
    """The job's lease is no longer this worker's."""


class JobNotAsked(BotError):
    """A job is not asked for; nothing was recorded. The message is fit for the thread."""


class NodeUnknown(JobNotAsked):
    """Nobody enrolled a node of that name."""


class NodeSilent(JobNotAsked):
    """The node has not been heard of lately."""


class NodeHeld(JobNotAsked):
    """Another job or incident holds the node's GPUs; the message names it."""


class NodeUnfit(JobNotAsked):
    """A launch over several nodes cannot be done with this node as it is set up; the message says what is expected."""


class InvalidSettings(BotError):
    """A setting cannot be used; the message names it and the expected form."""


class SandboxError(BotError):
    """The sandbox cannot start; the message says what was expected and found."""
