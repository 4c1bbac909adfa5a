"""The stand-in's HTTP client, made at first use: its library takes longer to load than the page may take to answer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx


class HttpLine:
    """One client for everything the stand-in sends."""

    @cached_property
    def client(self) -> httpx.AsyncClient:
        """The client; proxies of the environment are not for loopback."""
        import httpx

        return httpx.AsyncClient(timeout=10, trust_env=False)

    async def close(self) -> None:
        """Close the client, if it was made."""
        if "client" in self.__dict__:
            await self.client.aclose()
