"""Fixtures that every folder may use, and real services for the tests that are marked for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support import services
from tests.support.examples import MORE_EXAMPLES

settings.register_profile(
    "baseline", deadline=None, max_examples=100 * MORE_EXAMPLES
)  # a slow machine is no failed property
settings.load_profile("baseline")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what the code says now")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with services.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with services.redis() as url:
        yield url


@pytest.fixture(scope="session")
def docker_host() -> Iterator[str]:
    with services.docker_engine() as host:
        yield host


@pytest.fixture(scope="session")
def python_image(docker_host: str) -> str:
    return services.python_image(docker_host)


@pytest.fixture(scope="session")
def busybox_image(docker_host: str) -> str:
    return services.busybox_image(docker_host)
