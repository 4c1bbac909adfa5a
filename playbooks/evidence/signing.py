"""Ed25519 keys, and the signed envelope that everything between bot and nodes travels in.

The signature covers the canonical bytes of `{schema, key_id, body}`; `body.type` names the kind of message, so that no
body can be passed off as another kind. Which key may say what is decided by the caller, who hands in the keys.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from playbooks.errors import BadSignature, InputError, MalformedMessage, NotCanonical, UnknownSchema
from playbooks.evidence.canonical import canonical_bytes

SCHEMA = 1
"""The envelope schema that is written; `READABLE` are read."""
READABLE = frozenset({1})
_KEY_BYTES = 32
_SHOWN_ERRORS = 3


class Envelope(BaseModel):
    """`{schema, key_id, body, signature}`; signature over the RFC 8785 bytes of `{schema, key_id, body}`, base64."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)
    schema_: int = Field(alias="schema")
    key_id: str
    """`bot` or `node:<name>`."""
    body: dict[str, Any]
    signature: str


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that checks signatures; `text` is base64 of its 32 raw bytes."""

    text: str

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """Read a public key.

        Raises:
            InputError: not base64 of 32 bytes.
        """
        return cls(base64.b64encode(_key_bytes(text, "public")).decode())

    def to_text(self) -> str:
        """Return the key as base64."""
        return self.text

    def is_signed(self, data: bytes, signature: bytes) -> bool:
        """Whether this key's owner signed these bytes."""
        try:
            Ed25519PublicKey.from_public_bytes(base64.b64decode(self.text)).verify(signature, data)
        except InvalidSignature:
            return False
        return True


class SigningKey:
    """A private key. Its text form is a secret; it never shows in `repr`."""

    __slots__ = ("_key",)

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a fresh key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_text(cls, text: str) -> SigningKey:
        """Read a private key from base64 of its 32 raw bytes.

        Raises:
            InputError: not base64 of 32 bytes; the message does not repeat the text.
        """
        return cls(Ed25519PrivateKey.from_private_bytes(_key_bytes(text, "private")))

    def to_text(self) -> str:
        """Return the secret as base64."""
        return base64.b64encode(self._key.private_bytes_raw()).decode()

    @property
    def public(self) -> PublicKey:
        """The key that checks what this one signs."""
        return PublicKey(base64.b64encode(self._key.public_key().public_bytes_raw()).decode())

    @property
    def public_text(self) -> str:
        """The public key as base64."""
        return self.public.text

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        return self._key.sign(data)

    def __repr__(self) -> str:
        return f"SigningKey(public={self.public_text})"


M = TypeVar("M", bound=BaseModel)


def sign(body: BaseModel | Mapping[str, Any], key: SigningKey, key_id: str) -> Envelope:
    """Sign a message.

    Raises:
        MalformedMessage: the body does not say its `type`.
        NotCanonical: the body holds something without canonical bytes.
    """
    content = body.model_dump(mode="json") if isinstance(body, BaseModel) else dict(body)
    if not isinstance(content.get("type"), str):
        raise MalformedMessage("expected a body that names its `type`, found none")
    signature = key.sign(_signed_bytes(SCHEMA, key_id, content))
    return Envelope(schema_=SCHEMA, key_id=key_id, body=content, signature=base64.b64encode(signature).decode())


def open_envelope(envelope: object, keys: Mapping[str, PublicKey], expect: type[M]) -> M:
    """Return the body of a message, once its signature and kind are found right.

    envelope: an `Envelope`, or what JSON gave that should be one.
    keys: by key id; only those that may say this kind of message here.

    Raises:
        UnknownSchema: the envelope's schema is not one this version reads.
        BadSignature: unsigned, altered, or signed by a key that is not among `keys`.
        MalformedMessage: not an envelope, another kind of message, or not of its kind's form.
    """
    read = envelope if isinstance(envelope, Envelope) else _read_envelope(envelope)
    if read.schema_ not in READABLE:
        raise UnknownSchema(f"expected envelope schema {', '.join(map(str, sorted(READABLE)))}, found {read.schema_}")
    key = keys.get(read.key_id)
    if key is None:
        raise BadSignature(
            f"expected a key of {', '.join(sorted(keys)) or 'nobody'}, found key id {read.key_id[:80]!r}"
        )
    try:
        signature = base64.b64decode(read.signature, validate=True)
        signed = _signed_bytes(read.schema_, read.key_id, read.body)
    except (binascii.Error, ValueError) as error:
        raise BadSignature("expected a signature in base64, found something else") from error
    except NotCanonical as error:
        raise MalformedMessage(f"message body: {error}") from error
    if not key.is_signed(signed, signature):
        raise BadSignature(f"the signature of {read.key_id} does not fit the message: altered, or another key")
    return _read_body(read.body, expect)


def _read_envelope(raw: object) -> Envelope:
    try:
        return Envelope.model_validate(dict(raw) if isinstance(raw, Mapping) else raw)
    except ValidationError as error:
        raise MalformedMessage(f"expected an envelope {{schema, key_id, body, signature}}: {_why(error)}") from error


def _read_body(body: dict[str, Any], expect: type[M]) -> M:
    wanted = expect.model_fields["type"].default
    if body.get("type") != wanted:
        raise MalformedMessage(f"expected a {wanted}, found {str(body.get('type'))[:80]!r}")
    try:
        return expect.model_validate(body)
    except ValidationError as error:
        raise MalformedMessage(f"{wanted}: {_why(error)}") from error


def _why(error: ValidationError) -> str:
    """Say where and why in one line, without repeating the values: they may be long or secret."""
    found = [f"{'.'.join(map(str, e['loc'])) or 'message'}: {e['msg']}" for e in error.errors(include_input=False)]
    return "; ".join(found[:_SHOWN_ERRORS]) + (
        f"; and {len(found) - _SHOWN_ERRORS} more" if found[_SHOWN_ERRORS:] else ""
    )


def _signed_bytes(schema: int, key_id: str, body: Mapping[str, Any]) -> bytes:
    return canonical_bytes({"schema": schema, "key_id": key_id, "body": body})


def _key_bytes(text: str, which: str) -> bytes:
    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != _KEY_BYTES:
        raise InputError(f"expected a {which} key as base64 of {_KEY_BYTES} bytes, found {len(text)} other characters")
    return raw
