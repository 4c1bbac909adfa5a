"""Settings of the bot process, read from the environment once, in `bot.app` and `bot.cli`.

Every field names its environment variable `BASELINE_<FIELD>`; docs/configuration.md is generated from this class.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from bot.errors import InvalidSettings

SLACK_API_URL = "https://slack.com/api/"
_NAME_CHARS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")

Names = Annotated[tuple[str, ...], NoDecode]
"""A comma-separated list."""


class Settings(BaseSettings):
    """What the operator decides. Frozen; secrets never show in `repr`."""

    model_config = SettingsConfigDict(env_prefix="BASELINE_", frozen=True, extra="ignore", env_ignore_empty=True)

    data_dir: Path = Field(
        default=Path("baseline-data"),
        description="Folder for keys, artifacts and the SQLite store. Only the bot's user needs to read it.",
    )
    database_url: SecretStr = Field(
        default=SecretStr(""),
        description="Store: `sqlite:///PATH` or `postgresql+psycopg://…`. Empty: `baseline.db` in the data folder.",
    )
    broker_url: SecretStr = Field(
        default=SecretStr("redis://127.0.0.1:6379/0"),
        description="Redis or Valkey that carries jobs to the nodes, `redis://` or `rediss://`.",
    )
    artifacts_url: str = Field(
        default="",
        description="Where log files and bundles are kept: a path or an fsspec URL. Empty: `artifacts` in the data folder.",
    )
    slack_mode: Literal["socket", "http"] = Field(
        default="socket",
        description="`socket`: the bot dials out to Slack, no public address. `http`: Slack calls `POST /slack/events`.",
    )
    slack_bot_token: SecretStr = Field(
        default=SecretStr(""), description="Bot token `xoxb-…`. Empty: the bot serves nodes only."
    )
    slack_app_token: SecretStr = Field(
        default=SecretStr(""), description="App-level token `xapp-…` with `connections:write`; needed in socket mode."
    )
    slack_signing_secret: SecretStr = Field(
        default=SecretStr(""), description="Signing secret of the app; needed in http mode."
    )
    slack_api_url: str = Field(
        default=SLACK_API_URL,
        description="Web API of Slack, or of an emulator; it then governs Socket Mode and file transfer too.",
    )
    responders: Names = Field(
        default=(),
        description="Slack user ids (`U…`) or user groups (`S…`) that may collect, fingerprint, launch and probe; comma-separated. Empty: nobody.",
    )
    approvers: Names = Field(
        default=(),
        description="Slack user ids (`U…`) or user groups (`S…`) that may also approve; comma-separated. Empty: nobody.",
    )
    nodes: Names = Field(
        default=(),
        description="GPU nodes, comma-separated: `name` (key in `nodes/NAME.pub` of the data folder) or `name=PUBLICKEY`.",
    )
    playbook: str = Field(default="kimi-k3", description="Playbook of a new incident unless another is chosen.")
    host: str = Field(default="127.0.0.1", description="Address the HTTP server listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port the HTTP server listens on; 0 takes a free one.")
    metrics_token: SecretStr = Field(
        default=SecretStr(""),
        description="Bearer token of `GET /metrics`. Empty: metrics are open on a loopback address and closed elsewhere.",
    )
    claim_within_s: int = Field(
        default=600, ge=10, description="Seconds after which a job that no node took up is given up, and said so."
    )
    artifact_max_mb: int = Field(default=256, ge=1, description="Largest artifact that a node may upload, in MiB.")
    api_docs: bool = Field(
        default=False, description="Serve the OpenAPI pages `/docs` and `/openapi.json`; for development."
    )

    @field_validator("responders", "approvers", "nodes", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
        return value

    @field_validator("slack_api_url")
    @classmethod
    def _api_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"expected a URL such as {SLACK_API_URL}, found {value!r}")
        return value.rstrip("/") + "/"

    @field_validator("nodes")
    @classmethod
    def _node_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            name = entry.partition("=")[0]
            if not valid_node_name(name):
                raise ValueError(f"expected node names of a-z, 0-9, - and _, found {name!r}")
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (
            self.slack_mode == "http"
            and self.slack_bot_token.get_secret_value()
            and not self._has(self.slack_signing_secret)
        ):
            raise ValueError("slack_mode http needs BASELINE_SLACK_SIGNING_SECRET: unsigned requests are refused")
        if self.slack_mode == "socket" and self._has(self.slack_bot_token) and not self._has(self.slack_app_token):
            raise ValueError("slack_mode socket needs BASELINE_SLACK_APP_TOKEN (or set BASELINE_SLACK_MODE=http)")
        return self

    @staticmethod
    def _has(secret: SecretStr) -> bool:
        return bool(secret.get_secret_value())

    @property
    def store_url(self) -> str:
        """URL of the store, with the default filled in."""
        return self.database_url.get_secret_value() or f"sqlite:///{self.data_dir.absolute() / 'baseline.db'}"

    @property
    def store_file(self) -> Path | None:
        """File of a SQLite store; None when the store is a server."""
        scheme, _, path = self.store_url.partition(":///")
        return Path(path) if scheme.startswith("sqlite") else None

    @property
    def artifacts_place(self) -> str:
        """Where artifacts are kept, with the default filled in."""
        return self.artifacts_url or str(self.data_dir.absolute() / "artifacts")

    @property
    def has_slack(self) -> bool:
        """Whether a workspace is connected."""
        return self._has(self.slack_bot_token)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the HTTP server."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def slack_hosts(self) -> frozenset[str]:
        """Hosts that may see the bot token: Slack's own, or the configured API URL's."""
        if self.slack_api_url == SLACK_API_URL:
            return frozenset({"slack.com", "files.slack.com"})
        return frozenset({urlsplit(self.slack_api_url).netloc})


def valid_node_name(name: str) -> bool:
    """Whether a node may be called so: the name is part of queue and file names."""
    return bool(name) and not set(name) - _NAME_CHARS


def read_settings() -> Settings:
    """Read the settings from the environment.

    Raises:
        InvalidSettings: a variable cannot be used; the message names it and the expected form, never the value of a secret.
    """
    try:
        return Settings()
    except ValidationError as error:
        wrong = [
            f"{_variable(found['loc'])}{found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_input=False, include_url=False)
        ]
        raise InvalidSettings("; ".join(wrong)) from error


def _variable(location: tuple[int | str, ...]) -> str:
    return f"BASELINE_{str(location[0]).upper()}: " if location else ""
