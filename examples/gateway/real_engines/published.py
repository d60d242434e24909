"""What pods have published, by their replay sockets, and whether a gateway has applied it."""

import asyncio
import sys

import aiohttp
import zmq
import zmq.asyncio

from pods import Gateway


class Published:
    """The numbers of the last batches of pods 1 to N.

    An engine queues a step's events before it answers, and publishes them by a thread that also answers replays, one batch
    between two replays. So a number that two replays in a row end with is that of the last batch there is.
    """

    def __init__(self, pods: int):
        self.context = zmq.asyncio.Context()
        self.sockets = [self.context.socket(zmq.DEALER) for _ in range(pods)]
        for n, socket in enumerate(self.sockets, 1):
            socket.connect(f"tcp://127.0.0.1:{18570 + n}")
        self.newest = [0] * pods
        # What a gateway's count of applied batches is short of the engine's numbers.
        self.missed: dict[int, list[int]] = {}

    async def replay(self, at: int) -> int:
        """The last number of a replay; -1 if nothing was published."""
        socket, last = self.sockets[at], -1
        await socket.send_multipart([b"", self.newest[at].to_bytes(8, "big")])
        while True:
            *_, number, payload = await asyncio.wait_for(socket.recv_multipart(), 10)
            if not payload:
                return last
            last = int.from_bytes(number, "big")

    async def settled(self, at: int) -> int:
        before = None
        while (last := await self.replay(at)) != before:
            before = last
        self.newest[at] = max(last, 0)
        return last

    async def all_settled(self) -> list[int]:
        return await asyncio.gather(*(self.settled(at) for at in range(len(self.sockets))))

    async def begin(self, session: aiohttp.ClientSession, gateways: list[Gateway]) -> None:
        """Before the first request: what a gateway has applied, once nothing more comes, is all there is."""
        settled = await self.all_settled()
        for gateway in gateways:
            applied, before = await self.applied(session, gateway), None
            while applied != before:
                await asyncio.sleep(0.3)
                applied, before = await self.applied(session, gateway), applied
            self.missed[gateway.port] = [last + 1 - count for last, count in zip(settled, applied)]

    async def reached(self, session: aiohttp.ClientSession, gateways: list[Gateway]) -> None:
        """Waits until the gateways have applied all that the engines have to say of the answers so far."""
        settled = await self.all_settled()
        for gateway in gateways:
            for _ in range(1000):
                counts = zip(settled, await self.applied(session, gateway), self.missed[gateway.port])
                if all(last < count + missed for last, count, missed in counts):
                    break
                await asyncio.sleep(0.01)
            else:
                sys.exit(f"judge: the gateway on port {gateway.port} does not get what the pods publish")

    async def applied(self, session: aiohttp.ClientSession, gateway: Gateway) -> list[int]:
        return [pod["events"]["batches"] for pod in (await gateway.state(session))["pods"]]

    def close(self) -> None:
        self.context.destroy(linger=0)
