"""What every flow is given: store, artifacts, clock, ids, definitions and the few settings that rules depend on.

Made once in `bot.app`, passed as the first argument; a test makes its own with fakes. Flows are plain synchronous
functions `flow(services, …) -> value`; an async caller runs them with `await services.run(flow, services, …)`, which is
bounded in number and time and raises `StoreUnavailable` in words when the store does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from playbooks.vocabulary import Role

if TYPE_CHECKING:
    from bot.ports import ArtifactStore, ChartPainter, Clock, Ids, Store
    from playbooks.evidence.signing import PublicKey, SigningKey
    from playbooks.guiding.playbook import Playbook
    from playbooks.judging.boundary import Boundaries
    from playbooks.judging.signature_catalogue import Catalogue

P = ParamSpec("P")
T = TypeVar("T")


class Definitions(Protocol):
    """The judging material. `bot.adapters.definitions` reads the package's own."""

    def signatures(self) -> Catalogue:
        """Return the signature catalogue."""
        ...

    def boundaries(self) -> Boundaries:
        """Return the official boundaries that ship with the package."""
        ...

    def recipe_for(self, model: str) -> Boundaries | None:
        """Return the imported recipe that names this model best, unless the shipped boundaries are newer for it."""
        ...

    def playbook_names(self) -> tuple[str, ...]:
        """Return the names of the playbooks."""
        ...

    def playbook(self, name: str) -> Playbook:
        """Return a playbook."""
        ...

    def playbook_bytes(self, name: str) -> bytes:
        """Return a playbook's text, as an incident keeps it."""
        ...


class FlowRunner(Protocol):
    """The async edge: runs a synchronous flow in a bounded thread pool, ≤ 2 s, behind a circuit breaker."""

    async def __call__(self, flow: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a flow and return its value."""
        ...


class Groups(Protocol):
    """User groups of the workspace; never asks Slack, so it may be called inside a transaction."""

    def members(self, group: str) -> frozenset[str]:
        """Return who is in a group, as last read; nobody when it could not be read."""
        ...

    @property
    def unreadable(self) -> dict[str, str]:
        """Groups that count for nothing now, and why."""
        ...


def is_group(name: str) -> bool:
    """Whether an entry of a list of people is a user group's id."""
    return name.startswith("S")


@dataclass(frozen=True, slots=True)
class People:
    """Who may do what (R16), by Slack user id or user group id; empty sets and unread groups fail closed."""

    responders: frozenset[str] = frozenset()
    approvers: frozenset[str] = frozenset()
    groups: Groups | None = None

    def role_of(self, user: str) -> Role:
        """Return the highest role of a user; an approver may do what a responder may."""
        if user in self._in(self.approvers):
            return Role.APPROVER
        return Role.RESPONDER if user in self._in(self.responders) else Role.VIEWER

    @property
    def known(self) -> frozenset[str]:
        """All who have a role, by user id."""
        return self._in(self.approvers | self.responders)

    def _in(self, names: frozenset[str]) -> frozenset[str]:
        groups = [name for name in names if is_group(name)]
        if not groups or self.groups is None:
            return names - frozenset(groups)
        return (names - frozenset(groups)).union(*(self.groups.members(group) for group in groups))


@dataclass(frozen=True, slots=True)
class Timing:
    """Waiting times that rules depend on."""

    claim_within: timedelta = timedelta(minutes=10)
    """A job that no node claimed within this time is given up, and said so."""
    node_silent_after: timedelta = timedelta(seconds=90)
    """Three hellos missed: the node is named silent before anything is sent to it."""
    clock_window: timedelta = timedelta(seconds=60)
    """A node's message further off the bot's clock is refused."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a flow may use. Nothing in here is global."""

    store: Store
    artifacts: ArtifactStore
    clock: Clock
    ids: Ids
    definitions: Definitions
    signing_key: SigningKey
    """The bot's key: signs jobs, answers to nodes, and bundles."""
    node_keys: Mapping[str, PublicKey]
    """Public keys of the enrolled nodes, by node name; a node without a key is refused."""
    nodes: tuple[str, ...]
    """Names of the nodes of BASELINE_NODES, in that order."""
    run: FlowRunner
    nudge: Callable[[], None]
    """Wake the senders (Slack, jobs) after a commit; cheap, never blocks, may be called from any thread."""
    people: People = People()
    timing: Timing = Timing()
    playbook: str = "kimi-k3"
    """Playbook of a new incident unless another is chosen."""
    charts: ChartPainter | None = None
    """Draws charts; without it the thread has none, and nothing else is missing."""
    slack_hosts: frozenset[str] = frozenset({"slack.com", "files.slack.com"})
    """Hosts that may see the bot token when a dropped file is read: Slack's, or the configured API URL's."""
