"""Chaos over real pods: one stopped and continued, events blocked, one killed and started anew, under load, with bounds.

*Availability* is the share of requests answered, of those begun and ended while at least one pod could answer. A stream that had
begun and broke because of its pod's fault is truncated, and counted apart. *Time to heal* is from the end of a fault until its pod
has answered three requests that began afterwards. `self_check` shows on made-up histories that both can say no.
"""

import asyncio
import json
import os
import random
import signal
import time
from dataclasses import dataclass

import aiohttp

from faults import Cut
from pods import pod

# The least share of requests that are answered.
LEAST = 0.97
# From a fault's end until its pod serves again, in seconds: a circuit breaker is open for 10.
HEAL = 30.0
HEALED_BY = 3


@dataclass
class Request:
    begun: float
    ended: float
    # `answered`, `truncated` or `failed`.
    outcome: str
    pod: str | None = None


@dataclass
class Fault:
    kind: str
    pod: str
    begun: float
    ended: float
    # Whether the pod cannot answer meanwhile.
    disables: bool = True


def availability(requests: list[Request], faults: list[Fault], pods: int) -> tuple[float, dict[str, int]]:
    """The share of requests that count, and how many there were of each kind."""
    counts = {"answered": 0, "failed": 0, "truncated": 0, "without pods": 0}
    for request in requests:
        during = [fault for fault in faults if fault.disables and fault.begun <= request.ended and request.begun <= fault.ended]
        moments = [request.begun, *(fault.begun for fault in during)]
        out = lambda at: len({fault.pod for fault in during if fault.begun <= at <= fault.ended}) == pods
        if any(out(at) for at in moments):
            counts["without pods"] += 1
        elif request.outcome == "truncated" and not any(fault.pod == request.pod for fault in during):
            counts["failed"] += 1
        else:
            counts[request.outcome] += 1
    counted = counts["answered"] + counts["failed"]
    return (counts["answered"] / counted if counted else 0.0), counts


def time_to_heal(requests: list[Request], fault: Fault) -> float | None:
    """Seconds from a fault's end; none if its pod did not serve again."""
    after = [r.ended for r in requests if r.pod == fault.pod and r.begun >= fault.ended and r.outcome == "answered"]
    return sorted(after)[HEALED_BY - 1] - fault.ended if len(after) >= HEALED_BY else None


def verdicts(name: str, requests: list[Request], faults: list[Fault], pods: int) -> list[str]:
    """What exceeds its bound."""
    share, counts = availability(requests, faults, pods)
    found = [f"{name}: {100 * share:.2f}% answered, below {100 * LEAST:.0f}%: {counts}"] if share < LEAST else []
    for fault in faults:
        took = time_to_heal(requests, fault)
        if took is None or took > HEAL:
            found.append(f"{name}: {fault.pod} healed from `{fault.kind}` after {took} s, {HEAL:.0f} are allowed")
    return found


def self_check() -> None:
    """The rules pass a good history and fail bad ones."""
    faults = [Fault("stop", "pod-1", 10, 15), Fault("events", "pod-2", 20, 25, disables=False)]
    good = [Request(t, t + 1, "answered", f"pod-{1 + t % 2}") for t in range(60)]
    cut = Request(9, 11, "truncated", "pod-1")
    assert verdicts("good", good + [cut], faults, 2) == []
    assert verdicts("cut elsewhere", good + [Request(9, 11, "truncated", "pod-2")] * 3, faults, 2)
    assert verdicts("failures", good + [Request(12, 13, "failed")] * 3, faults, 2)
    assert verdicts("failures of nobody", good + [Request(12, 13, "failed")] * 3, faults, 1) == []
    assert verdicts("silent", [r for r in good if r.pod == "pod-2" or r.begun < 15], faults, 2)
    assert verdicts("late", [r for r in good if r.pod == "pod-2" or not 15 <= r.begun < 46], faults, 2)
    assert verdicts("nothing", [], [], 2)


class Chaos:
    """Load over two pods by one gateway, and what happens to them."""

    def __init__(self, judge, session: aiohttp.ClientSession):
        self.judge, self.session, self.random = judge, session, random.Random(judge.options.seed)
        self.requests: list[Request] = []
        self.faults: list[Fault] = []
        self.prompts = [[self.random.randrange(3, 4096) for _ in range(self.random.randrange(40, 400))] for _ in range(12)]

    async def ask(self, port: int) -> None:
        prompt = self.random.choice(self.prompts) + [self.random.randrange(3, 4096) for _ in range(self.random.randrange(1, 60))]
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": True}
        body["stream"] = self.random.random() < 0.5
        begun, outcome, name, data = time.monotonic(), "failed", None, b""
        try:
            headers = {"x-pointsman-explain": "1"}
            async with self.session.post(f"http://127.0.0.1:{port}/v1/completions", json=body, headers=headers) as response:
                name = response.headers.get("x-pointsman-pod")
                async for chunk in response.content.iter_any():
                    data += chunk
                if response.status == 200 and b'"error"' not in data:
                    whole = data.rstrip().endswith(b"data: [DONE]") if body["stream"] else bool(json.loads(data)["choices"])
                    outcome = "answered" if whole else "truncated"
                elif response.status == 200:
                    outcome = "truncated"
        except (aiohttp.ClientError, asyncio.TimeoutError, json.JSONDecodeError, KeyError):
            outcome = "truncated" if data else "failed"
        self.requests.append(Request(begun, time.monotonic(), outcome, name))

    async def load(self, port: int, done: asyncio.Event) -> None:
        while not done.is_set():
            await self.ask(port)
            await asyncio.sleep(0.1)

    async def fault(self, kind: str, n: int, begin, end, seconds: float, disables: bool = True) -> None:
        """Does something to pod n for a while, and waits until the pod serves again or should."""
        begun = time.monotonic()
        await begin()
        await asyncio.sleep(seconds)
        await end()
        fault = Fault(kind, f"pod-{n}", begun, time.monotonic(), disables)
        self.faults.append(fault)
        while time_to_heal(self.requests, fault) is None and time.monotonic() < fault.ended + HEAL + 1:
            await asyncio.sleep(0.1)

    async def happen(self, cut: Cut) -> None:
        group = lambda n: int((self.judge.options.rig / f"pod-{n}.pid").read_text())

        async def signalled(n: int, number: int) -> None:
            os.killpg(group(n), number)

        async def passing(is_open: bool) -> None:
            cut.open.set() if is_open else cut.open.clear()

        async def start() -> None:
            await asyncio.to_thread(self.judge.rig.run, "start", "2", BLOCKS=self.judge.options.blocks)

        async def kill() -> None:
            await asyncio.to_thread(self.judge.rig.run, "kill", "2")

        await asyncio.sleep(2)
        await self.fault("stopped", 1, lambda: signalled(1, signal.SIGSTOP), lambda: signalled(1, signal.SIGCONT), 5)
        await self.fault("events blocked", 1, lambda: passing(False), lambda: passing(True), 5, disables=False)
        await self.fault("killed", 2, kill, start, 0)

    async def run(self, name: str) -> None:
        """Runs all of it, and notes what exceeds its bound."""
        if self.judge.options.only not in name:
            return
        self_check()
        cut, done = Cut(1), asyncio.Event()
        await cut.start()
        timeouts = {"first_byte_timeout": "4s", "stream_idle_timeout": "3s", "request_timeout": "20s"}
        gateway = self.judge.gateway(18100, [pod(1, events=cut.port), pod(2)], timeouts=timeouts)
        try:
            await gateway.ready(self.session)
            clients = [asyncio.create_task(self.load(18100, done)) for _ in range(4)]
            try:
                await self.happen(cut)
            finally:
                done.set()
                await asyncio.gather(*clients)
            left = sum(each["in_flight"] for each in (await gateway.state(self.session))["pods"])
        finally:
            gateway.stop()
            cut.server.close()
        share, counts = availability(self.requests, self.faults, 2)
        healed = ", ".join(f"{fault.kind} {time_to_heal(self.requests, fault) or -1:.1f} s" for fault in self.faults)
        print(f"{name}: availability {100 * share:.2f}% of at least {100 * LEAST:.0f}%, {counts}; healed: {healed}; at most {HEAL:.0f} s", flush=True)
        self.judge.verdicts += verdicts(name, self.requests, self.faults, 2)
        if left:
            self.judge.verdicts.append(f"{name}: {left} requests are counted as in flight afterwards")
