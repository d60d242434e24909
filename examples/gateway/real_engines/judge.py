"""Judges the gateway by real engines: cached tokens expected by the router against those that vLLM reports.

    rig.sh install && judge.py            the quick suite, of CI: three engine starts
    judge.py --full                       everything, about an hour; prints the table of docs/real-engines.md

Every request's answer says how many prompt tokens were cached. The gateway's decision log has what it expected and why the
two differ. The rules: one request at a time, every answer is exact; many at a time, no difference is without its cause.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
BLOCK = 32
LONGEST = 1900


class Rig:
    """The pods, by the rig's script."""

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, *words: str, **settings: str) -> None:
        environment = {**os.environ, "RIG": str(self.folder), **settings}
        subprocess.run([str(HERE / "rig.sh"), *words], env=environment, check=True, stdout=subprocess.DEVNULL)


class Gateway:
    """A gateway over some pods, with its decision log."""

    def __init__(self, binary: Path, folder: Path, port: int, pods: list[dict], **settings):
        self.port, self.log = port, folder / f"decisions-{port}.jsonl"
        self.log.unlink(missing_ok=True)
        model = {"name": "tiny", "block_size": BLOCK, **settings.pop("model", {})}
        config = {
            "listen": f"127.0.0.1:{port}",
            "model": model,
            "pods": pods,
            "decision_log": str(self.log),
            **settings,
        }
        path = folder / f"gateway-{port}.json"
        # JSON is YAML.
        path.write_text(json.dumps(config))
        output = open(folder / f"gateway-{port}.log", "w")
        self.process = subprocess.Popen([binary, "--config", path], stdout=output, stderr=output)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        for _ in range(300):
            try:
                state = await self.state(session)
                if all(pod["healthy"] and pod["events"]["state"] in ("live", "off") for pod in state["pods"]):
                    return
            except aiohttp.ClientError:
                pass
            if self.process.poll() is not None:
                sys.exit(f"judge: the gateway on port {self.port} ended")
            await asyncio.sleep(0.1)
        sys.exit(f"judge: the gateway on port {self.port} is not ready")

    async def state(self, session: aiohttp.ClientSession) -> dict:
        async with session.get(f"http://127.0.0.1:{self.port}/state") as response:
            return await response.json()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def records(self) -> list[dict]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


def pod(n: int, events: int | None = None, **more) -> dict:
    """A pod of the rig in a gateway's configuration; its events by another port, if one is given."""
    zmq = {"events": f"tcp://127.0.0.1:{events or 18560 + n}", "replay": f"tcp://127.0.0.1:{18570 + n}", "topic": "kv@"}
    return {"name": f"pod-{n}", "url": f"http://127.0.0.1:{18000 + n}", "events": {"zmq": zmq}, **more}


class Traffic:
    """Conversations that grow by turns and begin anew when they are long, many of them on a shared beginning."""

    def __init__(self, session: aiohttp.ClientSession, ports: list[int], seed: int, conversations: int):
        self.session, self.ports, self.random = session, ports, random.Random(seed)
        self.shared = [self.words(self.random.randrange(40, 400)) for _ in range(4)]
        self.conversations = [self.fresh() for _ in range(conversations)]
        self.sent = self.failed = 0
        self.abort_share = self.odd_share = 0.0
        # `ids`, `text` or `chat`: how prompts are given.
        self.form = "ids"

    def words(self, count: int) -> list[int]:
        return [self.random.randrange(3, 4096) for _ in range(count)]

    def fresh(self) -> list[int]:
        return list(self.random.choice(self.shared))

    async def turn(self, at: int) -> None:
        history = self.conversations[at]
        if len(history) > LONGEST - 200:
            history = self.fresh()
        prompt = history + self.words(self.random.randrange(1, 90))
        path, body = self.body(history, prompt)
        body |= {"model": "tiny", "max_tokens": self.random.randrange(1, 24), "temperature": 0}
        body |= {"return_token_ids": True, "ignore_eos": True}
        if self.random.random() < self.odd_share:
            body |= self.random.choice(ODD)
        aborts = self.random.random() < self.abort_share
        body["stream"] = aborts
        port = self.random.choice(self.ports)
        self.sent += 1
        try:
            async with self.session.post(f"http://127.0.0.1:{port}{path}", json=body) as response:
                if aborts:
                    await response.content.readany()
                    response.close()
                    self.conversations[at] = prompt
                    return
                answer = await response.json(content_type=None)
                if response.status != 200:
                    self.failed += 1
                    return
                said = answer["choices"][0].get("token_ids") or []
                self.conversations[at] = prompt + said
        except (aiohttp.ClientError, json.JSONDecodeError):
            self.failed += 1

    def body(self, history: list[int], prompt: list[int]) -> tuple[str, dict]:
        """A prompt in the form that was asked for, with the path that takes it."""
        text = lambda ids: " ".join(f"w{id - 3}" for id in ids if id >= 3)
        if self.form == "ids":
            return "/v1/completions", {"prompt": prompt}
        if self.form == "text":
            return "/v1/completions", {"prompt": text(prompt)}
        turns = [{"role": "user", "content": text(history)}] if history else []
        turns += [{"role": "assistant", "content": "w1"}, {"role": "user", "content": text(prompt[len(history):])}]
        return "/v1/chat/completions", {"messages": turns}

    async def run(self, requests: int, at_once: int, until: asyncio.Task | None = None) -> None:
        """Sends requests, so many at a time, and on until something is done; a conversation has one turn at a time."""
        turns = asyncio.Queue()
        for at in range(len(self.conversations)):
            turns.put_nowait(at)
        left = requests

        async def worker() -> None:
            nonlocal left
            while left > 0 or (until and not until.done()):
                if left <= 0:
                    # Gently: an engine that starts meanwhile wants the cores.
                    await asyncio.sleep(0.5)
                left -= 1
                at = await turns.get()
                await self.turn(at)
                turns.put_nowait(at)

        await asyncio.gather(*(worker() for _ in range(at_once)))


# Requests beside the plain ones: several answers, a stop, a salt, log probabilities of the prompt, which bypass the cache.
ODD = [
    {"n": 2, "temperature": 1.0},
    {"stop": ["w7", "w8"]},
    {"cache_salt": "tenant-a"},
    {"prompt_logprobs": 0},
    {"logprobs": 1, "echo": True, "max_tokens": 1},
    {"truncate_prompt_tokens": 100},
]


class Tally:
    """What a part of the traffic came to."""

    def __init__(self, name: str, records: list[dict]):
        self.name = name
        told = [record for record in records if record["cached_tokens"] is not None]
        differ = [record for record in told if record["expected_tokens"] != record["cached_tokens"]]
        self.told, self.untold, self.exact = len(told), len(records) - len(told), len(told) - len(differ)
        self.over = sum(record["expected_tokens"] > record["cached_tokens"] for record in differ)
        self.under = len(differ) - self.over
        self.largest = max((abs(r["expected_tokens"] - r["cached_tokens"]) for r in differ), default=0)
        self.near = sum(abs(r["expected_tokens"] - r["cached_tokens"]) <= BLOCK for r in told)
        self.causes: dict[str, int] = {}
        for record in differ:
            cause = record["cause"] or "unexplained"
            self.causes[cause] = self.causes.get(cause, 0) + 1
        self.window = longest_window([record["unix_ms"] for record in differ])
        self.unexplained = [r for r in differ if (r["cause"] or "unexplained") in ("unexplained", "prompt_differs")]

    def row(self) -> str:
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(self.causes.items())) or "none"
        near = 100 * self.near / max(self.told, 1)
        if self.causes.keys() & {"events_late", "no_events", "events_lost"}:
            causes += f"; healed after {self.window:.0f} s"
        return (
            f"| {self.name} | {self.told} | {self.exact} | {self.over} | {self.under} | {self.largest} "
            f"| {near:.2f}% | {causes} |"
        )


def longest_window(times: list[int]) -> float:
    """The longest time in which answers differed from what was expected, in seconds; five without a difference end it."""
    longest, began, last = 0, None, None
    for time_ms in sorted(times):
        if last is None or time_ms - last > 5000:
            began = time_ms
        longest, last = max(longest, time_ms - began), time_ms
    return longest / 1000


class Cut:
    """A proxy before a pod's events that can stop to pass them on, as a network does that says nothing."""

    def __init__(self, n: int):
        self.port, self.target, self.open, self.writers = 18660 + n, 18560 + n, asyncio.Event(), []
        self.open.set()

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self.pass_on(reader, forth, False), self.pass_on(back, writer, True), return_exceptions=True)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_cut: bool) -> None:
        try:
            while data := await reader.read(65536):
                if is_cut:
                    await self.open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


HEAD = """| traffic | answers | exact | over | under | largest difference, tokens | within a block | causes |
|---|---|---|---|---|---|---|---|"""


class Judge:
    def __init__(self, options):
        self.options, self.rig = options, Rig(options.rig)
        self.tallies: list[Tally] = []
        self.verdicts: list[str] = []

    def tally(self, name: str, gateways: list[Gateway], must_be_exact: bool) -> None:
        """Counts what the gateways, which have stopped, logged."""
        tally = Tally(name, [record for gateway in gateways for record in gateway.records()])
        self.tallies.append(tally)
        print(tally.row(), flush=True)
        for record in tally.unexplained[:5]:
            print("   ", json.dumps(record), flush=True)
        if tally.told == 0:
            self.verdicts.append(f"{name}: no answer told its cached tokens")
        if must_be_exact and tally.exact != tally.told:
            self.verdicts.append(f"{name}: {tally.told - tally.exact} of {tally.told} answers are not exact")
        if tally.unexplained:
            self.verdicts.append(f"{name}: {len(tally.unexplained)} differences have no cause")

    async def part(self, name, session, *, requests, at_once, gateways=1, must_be_exact=False, during=None, settings=None, pods=None, **shares):
        """Runs one kind of traffic over fresh gateways, and something that happens meanwhile."""
        if self.options.only not in name:
            return
        ports = [18100 + n for n in range(gateways)]
        pods = pods or [pod(1), pod(2)]
        settings = settings or {}
        if shares.get("form", "ids") != "ids":
            settings["model"] = {"tokenizer": {"file": str(self.options.rig / "model/tokenizer.json")}}
        running = [Gateway(self.options.gateway, self.options.rig, port, pods, **settings) for port in ports]
        try:
            for gateway in running:
                await gateway.ready(session)
            traffic = Traffic(session, ports, self.options.seed, 14)
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
        self.tally(name, running, must_be_exact)

    async def cut(self, session: aiohttp.ClientSession) -> None:
        """Events of both pods stop for a while, twice."""
        for _ in range(2):
            await asyncio.sleep(5)
            for cut in self.cuts:
                cut.open.clear()
            await asyncio.sleep(self.options.cut_seconds)
            for cut in self.cuts:
                cut.open.set()

    async def handoffs(self, session: aiohttp.ClientSession, requests: int) -> None:
        """Prefill on pod 1, decode on pod 2 by NIXL: answers equal those of one pod, whole and streamed, also where the
        decode pod holds a part of the prompt, and whatever handoff a client names."""
        name = "prefill to decode"
        if self.options.only not in name:
            return
        pods = [pod(1, role="prefill"), pod(2, role="decode")]
        gateway = Gateway(self.options.gateway, self.options.rig, 18100, pods, profile="prefill_decode", handoff="nixl")
        traffic = Traffic(session, [18100], self.options.seed, 6)
        equal = 0
        try:
            await gateway.ready(session)
            for at in range(requests):
                prompt = traffic.conversations[at % 6] + traffic.words(40)
                body = {"model": "tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True}
                evil = {"kv_transfer_params": {"do_remote_prefill": True, "remote_host": "192.0.2.1", "remote_port": 9}}
                asked = body | (evil if at % 5 == 4 else {})
                alone = await self.answer(session, 18001, body)
                both = await self.answer(session, 18100, asked | {"stream": at % 2 == 1})
                equal += alone == both
                if alone != both:
                    print(f"{name}: {at}: alone {alone}, by two pods {both}", flush=True)
                traffic.conversations[at % 6] = prompt + alone
            state = await gateway.state(session)
            print(f"{name}: {equal} of {requests} answers equal those of one pod; pods {[(p['name'], p['blocks']) for p in state['pods']]}", flush=True)
        finally:
            await asyncio.sleep(1.2)
            gateway.stop()
        self.tally(name + ", the prefill pod's answers", [gateway], must_be_exact=False)
        if equal != requests:
            self.verdicts.append(f"{name}: {requests - equal} of {requests} answers differ from those of one pod")

    async def answer(self, session: aiohttp.ClientSession, port: int, body: dict) -> list[int]:
        """The token ids of an answer, streamed or whole."""
        async with session.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as response:
            if not body.get("stream"):
                return (await response.json(content_type=None))["choices"][0]["token_ids"]
            ids: list[int] = []
            async for line in response.content:
                if line.startswith(b"data: {"):
                    ids += json.loads(line[6:])["choices"][0].get("token_ids") or []
            return ids

    async def start(self, **settings: str) -> None:
        """Starts both pods anew."""
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

    async def quick(self) -> None:
        if not self.options.running:
            await asyncio.to_thread(self.rig.run, "start", "1", "2", BLOCKS=self.options.blocks)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
            scale = self.options.scale
            await self.part("one at a time", session, requests=int(250 * scale), at_once=1, must_be_exact=True, odd_share=0.2)
            await self.part("eight at a time, aborts, resets", session, requests=int(500 * scale), at_once=8, odd_share=0.2, abort_share=0.05, during=self.reset)
            await self.part("two gateways", session, requests=int(250 * scale), at_once=4, gateways=2)
            await self.part("a pod killed and started anew", session, requests=int(120 * scale), at_once=2, during=self.crash)

    async def everything(self) -> None:
        scale = self.options.scale
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(120)) as session:
            if not self.options.running:
                await self.start(BLOCKS="600")
            part = lambda name, requests, **more: self.part(name, session, requests=int(requests * scale), **more)
            await part("one at a time", 2000, at_once=1, must_be_exact=True, odd_share=0.2)
            await part("one at a time, texts", 300, at_once=1, must_be_exact=True, form="text")
            await part("one at a time, chats", 300, at_once=1, must_be_exact=True, form="chat")
            await part("eight at a time, aborts, resets", 4000, at_once=8, odd_share=0.2, abort_share=0.05, during=self.reset)
            await part("four at a time, two gateways", 1000, at_once=4, gateways=2)
            await part("four at a time, a pod killed and started anew", 600, at_once=4, during=self.crash)
            self.cuts = [Cut(1), Cut(2)]
            for cut in self.cuts:
                await cut.start()
            cut_pods = [pod(n, events=18660 + n) for n in (1, 2)]
            await part("four at a time, events blocked", 600, at_once=4, during=self.cut, pods=cut_pods)
            await self.start(BLOCKS="200", BUFFER_STEPS="40")
            await part("199 blocks, one at a time", 500, at_once=1, must_be_exact=True)
            await part("199 blocks, four at a time", 800, at_once=4)
            await part("199 blocks, events blocked beyond the replay", 600, at_once=4, during=self.cut, pods=cut_pods)
            await self.start(BLOCKS="600", CONNECTOR="nixl")
            await self.handoffs(session, int(40 * scale))
            for algorithm in ("sha256", "sha256_cbor", "xxhash", "xxhash_cbor"):
                await self.start(BLOCKS="600", HASH=algorithm)
                hashing = {"vllm": "0.32.0", "algorithm": algorithm, "seed": "0"}
                await part(f"engine hashes, {algorithm}", 200, at_once=1, must_be_exact=True, odd_share=0.2, settings={"model": {"hashing": hashing}})

    def finish(self) -> int:
        print("\n" + HEAD)
        for tally in self.tallies:
            print(tally.row())
        for verdict in self.verdicts:
            print(f"judge: {verdict}", file=sys.stderr)
        return 1 if self.verdicts else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", type=Path, default=Path(os.environ.get("RIG", ROOT / "target/real_engines")))
    parser.add_argument("--gateway", type=Path, default=ROOT / "target/release/gateway", help="for --full built with the feature `tokenizers`")
    parser.add_argument("--blocks", default="600", help="blocks of a pod's cache")
    parser.add_argument("--scale", type=float, default=1.0, help="requests, as a multiple of the suite's")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cut-seconds", type=float, default=8.0, help="how long events are blocked")
    parser.add_argument("--running", action="store_true", help="the pods run already, and are left running")
    parser.add_argument("--only", default="", help="the parts whose name has this")
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    judge = Judge(options)
    try:
        asyncio.run(judge.everything() if options.full else judge.quick())
    finally:
        if not options.running:
            judge.rig.run("stop")
    return judge.finish()


if __name__ == "__main__":
    sys.exit(main())
