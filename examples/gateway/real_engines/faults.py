"""Proxies that break things between a gateway and its pods."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Proxy:
    """A TCP proxy. What a subclass does with data on its way is its fault."""

    def __init__(self, port: int, target: int):
        self.port, self.target = port, target

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        ways = self.pass_on(reader, forth, self.request), self.pass_on(back, writer, self.response)
        # The judge's end cancels what still stands.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*ways, return_exceptions=True)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault) -> None:
        try:
            while data := await reader.read(65536):
                await fault(data)
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def request(self, data: bytes) -> None:
        """Before data towards the pod."""

    async def response(self, data: bytes) -> None:
        """Before data from the pod."""


class Cut(Proxy):
    """Before a pod's events: it can stop to pass them on, as a network does that says nothing."""

    def __init__(self, n: int):
        super().__init__(18660 + n, 18560 + n)
        self.open = asyncio.Event()
        self.open.set()

    async def response(self, data: bytes) -> None:
        await self.open.wait()


class Trap(Proxy):
    """Before a pod: something happens between a gateway's next request and its arrival."""

    def __init__(self, n: int):
        super().__init__(18760 + n, 18000 + n)
        self.then: Callable[[], Awaitable[None]] | None = None

    async def request(self, data: bytes) -> None:
        if self.then and data.startswith(b"POST "):
            then, self.then = self.then, None
            await then()
