"""Judges the gateway by real engines: cached tokens expected by the router against those that vLLM reports.

    rig.sh install && judge.py            the quick suite, of CI: three engine starts
    judge.py --full                       everything, about an hour; prints the table of docs/real-engines.md

Every request's answer says how many prompt tokens were cached. The gateway's decision log has what it expected and why the
two differ. The rules: one request at a time, each sent when the events of the last answer are applied, every answer is
exact; many at a time, no difference is without its cause.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp

from chaos import Chaos
from embedded import Embedded
from faults import Cut
from handoffs import Handoffs
from pods import Gateway, Rig, parser, pod, stop_as_an_error_does
from published import Published
from tally import HEAD, Tally
from traffic import LONGEST, POISON, Traffic


class Judge:
    def __init__(self, options):
        self.options, self.rig = options, Rig(options.rig)
        self.tallies: list[Tally] = []
        self.verdicts: list[str] = []

    def tally(self, name: str, gateways: list[Gateway], must_be_exact: bool, must_differ: bool = False) -> None:
        """Counts what the gateways, which have stopped, logged."""
        tally = Tally(name, [record for gateway in gateways for record in gateway.records()])
        self.tallies.append(tally)
        print(tally.row(), flush=True)
        for record in tally.unexplained[:5]:
            print("   ", json.dumps(record), flush=True)
        if tally.told == 0:
            self.verdicts.append(f"{name}: no answer told its cached tokens")
        if must_differ:
            if not tally.unexplained:
                self.verdicts.append(f"{name}: nothing differs, so that the traffic shows nothing elsewhere either")
            return
        if must_be_exact and tally.exact != tally.told:
            self.verdicts.append(f"{name}: {tally.told - tally.exact} of {tally.told} answers are not exact")
        if tally.unexplained:
            self.verdicts.append(f"{name}: {len(tally.unexplained)} differences have no cause")

    def gateway(self, port: int, pods: list[dict], **settings) -> Gateway:
        return Gateway(self.options.gateway, self.options.rig, port, pods, **settings)

    async def part(self, name, session, *, requests, at_once, gateways=1, must_be_exact=False, must_differ=False, during=None, settings=None, pods=None, **shares):
        """Runs one kind of traffic over fresh gateways, and something that happens meanwhile."""
        if self.options.only not in name:
            return
        ports = [18100 + n for n in range(gateways)]
        pods = pods or [pod(1), pod(2)]
        settings = settings or {}
        if shares.get("form", "ids") != "ids":
            settings["model"] = {"tokenizer": {"file": str(self.options.rig / "model/tokenizer.json")}}
        running = [self.gateway(port, pods, **settings) for port in ports]
        published = None
        try:
            for gateway in running:
                await gateway.ready(session)
            traffic = Traffic(session, ports, self.options.seed, 14)
            if must_be_exact:
                published = Published(len(pods))
                await published.begin(session, running)
                traffic.between = lambda: published.reached(session, running)
            for share, value in shares.items():
                setattr(traffic, share, value)
            began = time.monotonic()
            if during:
                happening = asyncio.create_task(during(session))
                await traffic.run(requests, at_once, until=happening)
                await happening
                await traffic.run(requests // 2, at_once)
            else:
                await traffic.run(requests, at_once)
            print(f"{name}: {traffic.sent} requests in {time.monotonic() - began:.0f} s, {traffic.failed} failed", flush=True)
        finally:
            # Events that explain the last answers are on their way.
            await asyncio.sleep(1.2)
            for gateway in running:
                gateway.stop()
            if published:
                published.close()
        self.tally(name, running, must_be_exact, must_differ)

    async def cut(self, session: aiohttp.ClientSession) -> None:
        """Events of both pods stop for a while, twice."""
        for _ in range(2):
            await asyncio.sleep(5)
            for cut in self.cuts:
                cut.open.clear()
            await asyncio.sleep(self.options.cut_seconds)
            for cut in self.cuts:
                cut.open.set()

    async def start(self, **settings: str) -> None:
        """Starts both pods anew, unless they were left to others."""
        if self.options.running:
            return
        await asyncio.to_thread(self.rig.run, "stop")
        await asyncio.to_thread(self.rig.run, "start", "1", "2", **settings)

    async def reset(self, session: aiohttp.ClientSession) -> None:
        for n in (1, 2):
            await asyncio.sleep(4)
            async with session.post(f"http://127.0.0.1:{18000 + n}/reset_prefix_cache"):
                pass

    async def crash(self, session: aiohttp.ClientSession) -> None:
        await asyncio.sleep(5)
        await asyncio.to_thread(self.rig.run, "kill", "2")
        await asyncio.to_thread(self.rig.run, "start", "2", BLOCKS=self.options.blocks)

    async def too_long(self, session: aiohttp.ClientSession) -> None:
        """A prompt that no pod takes is refused in the pod's own words."""
        name = "a prompt longer than the cache"
        if self.options.only not in name:
            return
        gateway, answers = self.gateway(18100, [pod(1), pod(2)]), []
        try:
            await gateway.ready(session)
            body = {"model": "tiny", "prompt": [5] * (LONGEST + 900), "max_tokens": 1}
            for port in (18100, 18001):
                async with session.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as response:
                    answers.append((response.status, (await response.json(content_type=None))["error"]["message"]))
        finally:
            gateway.stop()
        print(f"{name}: {answers[0]}", flush=True)
        if answers[0] != answers[1] or answers[0][0] != 400:
            self.verdicts.append(f"{name}: the gateway answers {answers[0]}, the pod {answers[1]}")

    async def restarted(self, session: aiohttp.ClientSession) -> None:
        """A gateway that stops and starts again knows the caches as they are, within a second."""
        name = "a gateway stopped and started anew"
        if self.options.only not in name:
            return
        file = self.options.rig / "snapshot"
        file.unlink(missing_ok=True)
        saved = {"path": str(file), "interval": "1h"}
        before, after, published = None, None, Published(2)
        try:
            before = self.gateway(18100, [pod(1), pod(2)], snapshot=saved)
            await before.ready(session)
            await Traffic(session, [18100], self.options.seed + 1, 14).run(200, 4)
            known = [each["blocks"] for each in (await before.state(session))["pods"]]
            before.stop()
            # What comes meanwhile is asked for.
            await Traffic(session, [18001, 18002], self.options.seed + 2, 14).run(20, 4)
            after = self.gateway(18100, [pod(1), pod(2)], snapshot=saved)
            began = time.monotonic()
            await after.ready(session)
            seconds, pods = time.monotonic() - began, (await after.state(session))["pods"]
            blocks, batches = [each["blocks"] for each in pods], [each["events"]["batches"] for each in pods]
            print(f"{name}: {known} blocks before, {blocks} after {seconds:.2f} s with {batches} batches replayed", flush=True)
            if min(blocks) == 0 or max(batches) > 60 or seconds > 1.0:
                self.verdicts.append(f"{name}: {blocks} blocks after {seconds:.2f} s and {batches} batches")
            await published.begin(session, [after])
            traffic = Traffic(session, [18100], self.options.seed + 1, 14)
            traffic.between = lambda: published.reached(session, [after])
            await traffic.run(int(200 * self.options.scale), 1)
        finally:
            published.close()
            await asyncio.sleep(1.2)
            for gateway in (before, after):
                if gateway:
                    gateway.stop()
        self.tally(name, [after], must_be_exact=True)

    async def embedded(self, session: aiohttp.ClientSession) -> None:
        """The gateway of forty lines sends every prompt to where it is cached."""
        name = "the gateway of forty lines"
        if self.options.only not in name or not self.options.embedded:
            return
        gateway = Embedded(self.options.embedded, self.options.rig / "model", 2)
        try:
            await gateway.ready(session)
            answers, whole, failed = await gateway.run(session, prompts=12, rounds=4)
        finally:
            gateway.stop()
        print(f"{name}: of {answers} prompts sent again {whole} were cached as far as they can be, {failed} failed", flush=True)
        if whole != answers or failed:
            self.verdicts.append(f"{name}: {whole} of {answers} were cached, {failed} failed")

    async def quick(self) -> None:
        await self.start(BLOCKS=self.options.blocks)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
            part = self.scaled_part(session)
            await part("one at a time", 250, at_once=1, must_be_exact=True, odd_share=0.2)
            await part("one at a time, fields that poison", 60, at_once=1, must_be_exact=True, odd_share=0.5, odd=POISON)
            await part("eight at a time, aborts, resets", 500, at_once=8, odd_share=0.2, abort_share=0.05, during=self.reset)
            await part("two gateways", 250, at_once=4, gateways=2)
            await self.embedded(session)
            await part("a pod killed and started anew", 120, at_once=2, during=self.crash)
            if "chaos" in self.options.only:
                # Asked for by name: it takes another start of an engine.
                await Chaos(self, session).run("chaos")

    async def everything(self) -> None:
        """A suite for each way that pods are started."""
        suites = [self.plain, self.small, self.smallest, self.adapters, self.handoffs, self.engine_hashes]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
            self.cuts = [Cut(1), Cut(2)]
            for cut in self.cuts:
                await cut.start()
            for suite in suites:
                if self.options.suite in suite.__name__:
                    await suite(session)

    def scaled_part(self, session: aiohttp.ClientSession):
        return lambda name, requests, **more: self.part(name, session, requests=int(requests * self.options.scale), **more)

    async def plain(self, session: aiohttp.ClientSession) -> None:
        part = self.scaled_part(session)
        await self.start(BLOCKS="600")
        await part("one at a time", 2000, at_once=1, must_be_exact=True, odd_share=0.2)
        await part("one at a time, texts", 300, at_once=1, must_be_exact=True, form="text")
        await part("one at a time, chats", 300, at_once=1, must_be_exact=True, form="chat")
        await part("one at a time, fields that poison", 300, at_once=1, must_be_exact=True, odd_share=0.5, odd=POISON)
        await part("eight at a time, aborts, resets", 4000, at_once=8, odd_share=0.2, abort_share=0.05, during=self.reset)
        await part("four at a time, two gateways", 1000, at_once=4, gateways=2)
        await part("four at a time, a pod killed and started anew", 600, at_once=4, during=self.crash)
        await self.restarted(session)
        await self.embedded(session)
        await part("four at a time, events blocked", 600, at_once=4, during=self.cut, pods=self.cut_pods())

    async def small(self, session: aiohttp.ClientSession) -> None:
        part = self.scaled_part(session)
        await self.start(BLOCKS="200")
        await part("199 blocks, one at a time", 500, at_once=1, must_be_exact=True)
        await part("199 blocks, one at a time, fields that poison", 300, at_once=1, must_be_exact=True, odd_share=0.5, odd=POISON)
        allowing = {"client_fields": {"allow": ["vllm_xargs.kv_cache_report_mode"]}}
        await part("199 blocks, a field that poisons is allowed", 300, at_once=1, must_differ=True, odd_share=0.5, odd=POISON[:1], settings=allowing)
        # Their caches are told of anew.
        await self.start(BLOCKS="200")
        await part("199 blocks, four at a time", 800, at_once=4)
        await self.start(BLOCKS="200", BUFFER_STEPS="40")
        await part("199 blocks, events blocked beyond the replay", 600, at_once=4, during=self.cut, pods=self.cut_pods())

    async def smallest(self, session: aiohttp.ClientSession) -> None:
        """The whole cache is one prompt: engines preempt what they have begun."""
        part = self.scaled_part(session)
        await self.start(BLOCKS="66")
        await part("65 blocks, prompts up to the whole cache, one at a time", 300, at_once=1, must_be_exact=True, longest=1950)
        await part("65 blocks, prompts up to the whole cache, four at a time", 300, at_once=4, longest=1950)
        await self.too_long(session)

    async def adapters(self, session: aiohttp.ClientSession) -> None:
        part = self.scaled_part(session)
        await self.start(BLOCKS="600", LORA="1", HASH="sha256_cbor")
        models = ["tiny", "lora-a", "lora-b"]
        paths = {name: str(self.options.rig / "model" / name) for name in models[1:]}
        await part("LoRA, one at a time", 300, at_once=1, must_be_exact=True, odd_share=0.2, models=models, settings={"model": {"adapters": paths}})
        hashed = {"adapters": paths, "hashing": {"vllm": "0.32.0", "algorithm": "sha256_cbor", "seed": "0"}}
        await part("LoRA, engine hashes", 300, at_once=1, must_be_exact=True, odd_share=0.2, models=models, settings={"model": hashed})

    async def handoffs(self, session: aiohttp.ClientSession) -> None:
        await Handoffs(self, session).run()

    async def engine_hashes(self, session: aiohttp.ClientSession) -> None:
        part = self.scaled_part(session)
        for algorithm in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"):
            await self.start(BLOCKS="600", HASH=algorithm)
            hashing = {"vllm": "0.32.0", "algorithm": algorithm, "seed": "0"}
            await part(f"engine hashes, {algorithm}", 200, at_once=1, must_be_exact=True, odd_share=0.2, settings={"model": {"hashing": hashing}})

    def cut_pods(self) -> list[dict]:
        return [pod(n, events=18660 + n) for n in (1, 2)]

    def finish(self) -> int:
        print("\n" + HEAD)
        for tally in self.tallies:
            print(tally.row())
        for verdict in self.verdicts:
            print(f"judge: {verdict}", file=sys.stderr)
        return 1 if self.verdicts else 0


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--embedded", type=Path, help="the example axum_gateway; left out if not given")
    arguments.add_argument("--blocks", default="600", help="blocks of a pod's cache, in the quick suite")
    arguments.add_argument("--scale", type=float, default=1.0, help="requests, as a multiple of the suite's")
    arguments.add_argument("--cut-seconds", type=float, default=8.0, help="how long events are blocked")
    arguments.add_argument("--running", action="store_true", help="the pods run already, and are left running")
    arguments.add_argument("--suite", default="", help="of --full, the suites whose name has this")
    arguments.add_argument("--only", default="", help="the parts whose name has this")
    arguments.add_argument("--full", action="store_true")
    options = arguments.parse_args()
    stop_as_an_error_does("judge")
    judge = Judge(options)
    try:
        asyncio.run(judge.everything() if options.full else judge.quick())
    finally:
        if not options.running:
            judge.rig.run("stop")
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
