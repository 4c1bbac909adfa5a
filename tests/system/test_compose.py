"""The compose file is read by a real compose, and keeps secrets and odd keys out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

FILE = Path("docker-compose.yml")


@pytest.mark.services
def test_compose_v1_accepts_the_file() -> None:
    env = {**os.environ, "BASELINE_POSTGRES_PASSWORD": "only-for-this-check"}
    done = subprocess.run(
        ["docker-compose", "-f", str(FILE), "config", "-q"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_services_of_the_compose_file_are_the_four_of_the_design() -> None:
    services = yaml.safe_load(FILE.read_text())["services"]
    assert set(services) == {"redis", "postgres", "bot", "worker"}
    assert services["worker"]["profiles"] == ["gpu"]
    assert all("healthcheck" in services[name] for name in ("redis", "postgres", "bot"))


def test_no_secret_stands_in_the_compose_file() -> None:
    for name, service in yaml.safe_load(FILE.read_text())["services"].items():
        for key, value in service.get("environment", {}).items():
            if any(word in key for word in ("TOKEN", "SECRET", "PASSWORD")):
                assert str(value).startswith("${"), f"{name}: {key} holds a value"
