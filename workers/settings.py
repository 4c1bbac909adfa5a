"""Settings of a node's worker, read from the environment once, in `workers.app` and `workers.cli`.

Every field names its environment variable `BASELINE_<FIELD>`; the key file holds what is secret.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from playbooks.errors import InputError
from playbooks.evidence.signing import PublicKey, SigningKey
from workers.errors import InvalidNodeSettings

KEY_SCHEMA = "baseline-node-key/1"
_KEY_FORM = '{"schema": "baseline-node-key/1", "node", "private_key", "bot_public_key"}'


class NodeSettings(BaseSettings):
    """What the node's operator decides. Frozen."""

    model_config = SettingsConfigDict(env_prefix="BASELINE_", frozen=True, extra="ignore", env_ignore_empty=True)

    bot_url: str = Field(
        default="http://127.0.0.1:8080", description="Address of the bot's HTTP server, as this node reaches it."
    )
    broker_url: SecretStr = Field(
        default=SecretStr("redis://127.0.0.1:6379/0"),
        description="Redis or Valkey that carries jobs to the nodes, `redis://` or `rediss://`.",
    )
    node_key: Path | None = Field(
        default=None,
        description="Key file of this node, made by `baseline node-key NAME`. Readable by the worker only.",
    )
    node_policy: Path | None = Field(
        default=None, description="Policy file of the node's owner. Without one only reading jobs run."
    )
    data_dir: Path = Field(
        default=Path("baseline-data"),
        description="Folder for the worker's journal, logs and evidence that was not yet handed over.",
    )

    def home(self, node: str) -> Path:
        """Return the folder of one node's worker."""
        return self.data_dir.absolute() / "worker" / node


@dataclass(frozen=True, slots=True)
class NodeKey:
    """Who this node is, and whom it believes."""

    node: str
    signing: SigningKey
    bot: PublicKey

    @property
    def key_id(self) -> str:
        """Id under which the bot knows this node's key."""
        return f"node:{self.node}"


def read_settings() -> NodeSettings:
    """Read the settings from the environment.

    Raises:
        InvalidNodeSettings: a variable cannot be used; names it and the expected form, never its value.
    """
    try:
        return NodeSettings()
    except ValidationError as error:
        wrong = [f"BASELINE_{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors(include_input=False)]
        raise InvalidNodeSettings("; ".join(wrong)) from error


def read_key(path: Path | None, *, node: str = "") -> NodeKey:
    """Read the node's key file. node: whose key it must be; empty = whoever's it is.

    Raises:
        InvalidNodeSettings: no file, not of the expected form, or the key of another node.
    """
    if path is None:
        raise InvalidNodeSettings(
            f"expected BASELINE_NODE_KEY to name the key file of {node}; make it: baseline node-key {node}"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        key = NodeKey(
            node=str(content["node"]),
            signing=SigningKey.from_text(content["private_key"]),
            bot=PublicKey.from_text(content["bot_public_key"]),
        )
        schema = content.get("schema")
    except OSError as error:
        raise InvalidNodeSettings(f"key file {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise InvalidNodeSettings(
            f"key file {path}: expected {_KEY_FORM}, found something else ({type(error).__name__})"
        ) from error
    if schema != KEY_SCHEMA:
        raise InvalidNodeSettings(f"key file {path}: expected schema {KEY_SCHEMA}, found {schema!r}")
    if node and key.node != node:
        raise InvalidNodeSettings(f"key file {path}: expected the key of {node}, found the key of {key.node}")
    return key
