"""Tokens by which a person's program reads incidents: shown once, kept as a digest, for a time."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.flows.services import Services

PREFIX = "baseline_"
_BYTES = 32


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made. `text` is shown once; `digest` names it from then on."""

    text: str
    digest: str
    user: str
    expires_at: datetime


def create_token(services: Services, user: str, *, valid_for: timedelta) -> NewToken:
    """Make a token for a person, by Slack user id."""
    expires_at = services.clock.now() + valid_for
    text = PREFIX + secrets.token_urlsafe(_BYTES)
    digest = _digest(text)
    with services.store.write() as tx:
        tx.set_preference(f"token:{digest}", "person", json.dumps({"user": user, "expires_at": expires_at.isoformat()}))
    return NewToken(text=text, digest=digest, user=user, expires_at=expires_at)


def revoke_token(services: Services, token_or_digest: str) -> bool:
    """End a token; False when there is none."""
    digest = _digest(token_or_digest) if token_or_digest.startswith(PREFIX) else token_or_digest
    with services.store.write() as tx:
        if not tx.preference(f"token:{digest}", "person"):
            return False
        tx.set_preference(f"token:{digest}", "person", "")
    return True


def user_of_token(services: Services, text: str) -> str | None:
    """Return whose token this is; None for one that is unknown, revoked or past its time."""
    with services.store.read() as reading:
        found = reading.preference(f"token:{_digest(text)}", "person")
    if not found:
        return None
    person: dict[str, str] = json.loads(found)
    if datetime.fromisoformat(person["expires_at"]) <= services.clock.now():
        return None
    return person["user"]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
