"""Errors of the core.

    PlaybookError                    root of everything the core raises on purpose
    ├── InputError                   what a person or file handed in cannot be used
    │   ├── UnreadableInput          the bytes are not what the reader expects
    │   ├── InvalidDefinition        a YAML definition or recipe breaks its form (file, path, expected form)
    │   └── InvalidCommand           a launch command cannot be read as one
    ├── MessageError                 a wire message is not acceptable
    │   ├── MalformedMessage         not the form of its schema
    │   ├── UnknownSchema            a schema this version does not read
    │   └── BadSignature             unsigned, altered, or signed by an unknown key
    ├── EvidenceError                a ledger or bundle does not hold together
    │   ├── NotCanonical             a value that has no canonical bytes (float, NaN, lone surrogate)
    │   ├── BrokenChain              an entry does not follow its predecessor; names the first bad sequence
    │   └── BrokenBundle             a bundle's file, digest or signature is wrong; names which
    ├── BaselineMismatch             two attempts did not start from one baseline
    └── RuleViolation                a procedure rule refuses what was asked; names the open items
        ├── SecondVariable           more than one variable would change
        ├── PhaseClosed              the gate of an earlier phase is open
        └── SecondPersonNeeded       the same person may not do both

A launch that fails is data, never an exception. `docs/errors.md` shows the same tree; a test compares them.
"""

from __future__ import annotations


class PlaybookError(Exception):
    """Root of everything the core raises on purpose."""


class InputError(PlaybookError):
    """What a person or file handed in cannot be used."""


class UnreadableInput(InputError):
    """The bytes are not what the reader expects."""


class InvalidDefinition(InputError):
    """A YAML definition or recipe breaks its form; the message holds file, path and expected form."""


class InvalidCommand(InputError):
    """A launch command cannot be read as one."""


class MessageError(PlaybookError):
    """A wire message is not acceptable."""


class MalformedMessage(MessageError):
    """Not the form of its schema."""


class UnknownSchema(MessageError):
    """A schema that this version does not read."""


class BadSignature(MessageError):
    """Unsigned, altered, or signed by an unknown key."""


class EvidenceError(PlaybookError):
    """A ledger or bundle does not hold together."""


class NotCanonical(EvidenceError):
    """A value that has no canonical bytes: float, NaN, lone surrogate."""


class BrokenChain(EvidenceError):
    """An entry does not follow its predecessor; `seq` is the first bad sequence number."""

    def __init__(self, message: str, *, seq: int) -> None:
        super().__init__(message)
        self.seq = seq


class BrokenBundle(EvidenceError):
    """A bundle's file, digest or signature is wrong; the message names which."""


class BaselineMismatch(PlaybookError):
    """Two attempts did not start from one baseline; their agreement says nothing about stability."""


class RuleViolation(PlaybookError):
    """A procedure rule refuses what was asked; `items` names what is open."""

    def __init__(self, message: str, *, items: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.items = items


class SecondVariable(RuleViolation):
    """More than one variable would change against the last stable baseline."""


class PhaseClosed(RuleViolation):
    """The gate of an earlier phase is still open."""


class SecondPersonNeeded(RuleViolation):
    """The same person may not do both."""
