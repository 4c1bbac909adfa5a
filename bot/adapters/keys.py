"""Keys on disk: the bot's own, made on first start, and the public keys of the nodes.

Private keys are files of mode 0600 in the data folder; a node's private key leaves this machine only in the key file that
`baseline node-key` writes for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from bot.errors import InvalidSettings
from playbooks.errors import InputError
from playbooks.evidence.signing import PublicKey, SigningKey

NODE_KEY_SCHEMA = "baseline-node-key/1"


def bot_key(data_dir: Path) -> SigningKey:
    """Return the bot's key; make it on the first start.

    Raises:
        InvalidSettings: the key file cannot be read or written, or does not hold a key.
    """
    path = bot_key_path(data_dir)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            _write_once(path, SigningKey.generate().to_text() + "\n")
        return SigningKey.from_text(path.read_text())
    except OSError as error:
        raise InvalidSettings(f"BASELINE_DATA_DIR: the bot's key {path}: {error.strerror or error}") from error
    except InputError as error:
        raise InvalidSettings(f"the bot's key {path}: {error}") from error


def bot_key_path(data_dir: Path) -> Path:
    """Return where the bot's key lies."""
    return data_dir / "keys" / "bot.key"


def node_key_file(node: str, key: SigningKey, bot: PublicKey) -> str:
    """Return the text of a node's key file, for `BASELINE_NODE_KEY` on that node. A secret."""
    content = {
        "schema": NODE_KEY_SCHEMA,
        "node": node,
        "private_key": key.to_text(),
        "bot_public_key": bot.to_text(),
    }
    return json.dumps(content, indent=2) + "\n"


def write_secret(path: Path, text: str) -> None:
    """Write a new file that only its owner reads.

    Raises:
        FileExistsError: it is there already; a key is never overwritten.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _write_once(path: Path, text: str) -> None:
    """Write a secret completely or not at all; of two starting processes one wins, and both read its key."""
    draft = path.with_suffix(f".{os.getpid()}.new")
    write_secret(draft, text)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()


class NodeKeys(Mapping[str, PublicKey]):
    """Public keys by node name: from BASELINE_NODES, else from `nodes/NAME.pub`, read when asked for.

    A key file that is put there later counts without a restart.
    """

    def __init__(self, nodes: tuple[str, ...], data_dir: Path) -> None:
        self._folder = data_dir / "nodes"
        self._given: dict[str, PublicKey | None] = {}
        for entry in nodes:
            name, _, text = entry.partition("=")
            try:
                self._given[name] = PublicKey.from_text(text) if text else None
            except InputError as error:
                raise InvalidSettings(f"BASELINE_NODES: {name}: {error}") from error

    @property
    def names(self) -> tuple[str, ...]:
        """All enrolled nodes, with a key or without."""
        return tuple(self._given)

    def __getitem__(self, name: str) -> PublicKey:
        if name not in self._given:
            raise KeyError(name)
        key = self._given[name] or self._from_file(name)
        if key is None:
            raise KeyError(name)
        return key

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._given if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _from_file(self, name: str) -> PublicKey | None:
        try:
            return PublicKey.from_text((self._folder / f"{name}.pub").read_text())
        except (OSError, InputError):
            return None
