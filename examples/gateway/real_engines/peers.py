"""Tokens that real vLLM pods compute behind this gateway and behind others', by the engines' own counters.

    rig.sh install
    cargo build --release -p pointsman-gateway --features tokenizers
    python3 -m venv FOLDER && FOLDER/bin/pip install smg==1.13.0 vllm-router==0.1.16
    target/real_engines/venv/bin/python examples/gateway/real_engines/peers.py --peers FOLDER/bin

Growing conversations in text, streamed, so many at a time at most, and in the same order behind every gateway, from empty caches.
The table has, for each size of the pods' caches and each gateway, prompt tokens computed and the share of hits, the median over
seeds and the least and the most. The fewer tokens, the better the choice of pods; on a busy machine runs of one seed differ.
"""

import asyncio
import os
import random
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import aiohttp

from pods import Gateway, Rig, counted, parser, pod, stop_as_an_error_does, streamed

PORT = 18100


class Conversations:
    """So many conversations of so many turns, whose turns come in an order that the seed alone decides."""

    def __init__(self, session: aiohttp.ClientSession, seed: int, count: int, turns: int):
        self.session, chance = session, random.Random(seed)
        words = lambda number: " ".join(f"w{chance.randrange(4000)}" for _ in range(number))
        systems = [words(256) for _ in range(3)]
        self.texts = [chance.choice(systems) for _ in range(count)]
        self.locks = [asyncio.Lock() for _ in range(count)]
        order = [at for at in range(count) for _ in range(turns)]
        chance.shuffle(order)
        self.turns = [(at, words(chance.randrange(10, 80)), chance.randrange(4, 24)) for at in order]
        self.failed = 0

    async def run(self, at_once: int) -> None:
        turns = iter(self.turns)

        async def worker() -> None:
            for at, said, tokens in turns:
                async with self.locks[at]:
                    await self.turn(at, said, tokens)

        await asyncio.gather(*(worker() for _ in range(at_once)))

    async def turn(self, at: int, said: str, tokens: int) -> None:
        prompt = f"{self.texts[at]} {said}"
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        answer = await streamed(self.session, PORT, body)
        self.failed += answer is None
        self.texts[at] = f"{prompt} {answer or ''}"


class Peer:
    """A gateway of others' making."""

    def __init__(self, words: list[str], log: Path):
        output = open(log, "w")
        self.process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        body = {"model": "tiny", "prompt": "w1", "max_tokens": 1}
        for _ in range(300):
            if self.process.poll() is not None:
                break
            try:
                async with session.post(f"http://127.0.0.1:{PORT}/v1/completions", json=body) as response:
                    if response.status == 200:
                        # It has one pod by now; the others are known a moment later.
                        await asyncio.sleep(5)
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.2)
        sys.exit(f"peers: {self.process.args[0]} does not answer")

    def stop(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


class Comparison:
    def __init__(self, options):
        self.options, self.rig = options, Rig(options.rig)
        self.numbers = list(range(1, options.pods + 1))
        # By blocks and gateway, tokens computed and asked for, one pair for each seed.
        self.seen: dict[tuple[int, str], list[tuple[float, float]]] = {}

    def names(self) -> list[str]:
        own = self.options.profiles.split(",")
        return own + (["smg", "vllm-router"] if self.options.peers else [])

    def start(self, name: str):
        urls = [f"http://127.0.0.1:{18000 + n}" for n in self.numbers]
        own = ["--host", "127.0.0.1", "--port", str(PORT), "--prometheus-port", str(PORT + 1), "--policy", "cache_aware"]
        if name == "smg":
            return Peer([str(self.options.peers / name), "launch", "--worker-urls", *urls, *own], self.options.rig / "smg.log")
        if name == "vllm-router":
            return Peer([str(self.options.peers / name), "--worker-urls", *urls, *own], self.options.rig / "vllm-router.log")
        tokenizer = {"tokenizer": {"file": str(self.options.rig / "model/tokenizer.json")}}
        pods = [pod(n) for n in self.numbers]
        profile = {"file": str(Path(name).resolve())} if name.endswith(".yaml") else name
        return Gateway(self.options.gateway, self.options.rig, PORT, pods, model=tokenizer, profile=profile)

    async def run(self, session: aiohttp.ClientSession, blocks: int, name: str, seed: int) -> None:
        for n in self.numbers:
            async with session.post(f"http://127.0.0.1:{18000 + n}/reset_prefix_cache") as response:
                response.raise_for_status()
        gateway = self.start(name)
        try:
            await gateway.ready(session)
            before = await counted(session, self.numbers)
            traffic = Conversations(session, seed, self.options.conversations, self.options.turns)
            await traffic.run(self.options.at_once)
            after = await counted(session, self.numbers)
        finally:
            gateway.stop()
        asked, found = (later - earlier for earlier, later in zip(before, after))
        if asked == 0 or traffic.failed:
            sys.exit(f"peers: {name}: {traffic.failed} requests failed, {asked:.0f} prompt tokens were looked up")
        self.seen.setdefault((blocks, name), []).append((asked - found, asked))
        print(f"{blocks} blocks, seed {seed}, {name}: {asked - found:.0f} tokens computed of {asked:.0f}", flush=True)

    async def everything(self) -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session:
            for blocks in map(int, self.options.blocks.split(",")):
                self.rig.run("stop")
                self.rig.run("start", *map(str, self.numbers), BLOCKS=str(blocks))
                for seed in range(self.options.seed, self.options.seed + self.options.seeds):
                    for name in self.names():
                        await self.run(session, blocks, name, seed)

    def table(self) -> None:
        print("\n| blocks a pod | gateway | tokens computed, median | least | most | hits |\n|---:|---|---:|---:|---:|---:|")
        for (blocks, name), runs in self.seen.items():
            computed = [computed for computed, _ in runs]
            hits = 100 * statistics.median(1 - computed / asked for computed, asked in runs)
            row = f"{statistics.median(computed):,.0f} | {min(computed):,.0f} | {max(computed):,.0f} | {hits:.1f}%"
            print(f"| {blocks} | {name} | {row} |")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--peers", type=Path, help="a folder with `smg` and `vllm-router`; left out if not given")
    arguments.add_argument("--profiles", default="total_latency,cache_aware,round_robin", help="of this gateway, or documents of profiles")
    arguments.add_argument("--pods", type=int, default=2, choices=range(1, 10))
    arguments.add_argument("--blocks", default="400,800,1600", help="sizes of a pod's cache")
    arguments.add_argument("--conversations", type=int, default=60)
    arguments.add_argument("--turns", type=int, default=10)
    arguments.add_argument("--at-once", type=int, default=4)
    arguments.add_argument("--seeds", type=int, default=3)
    comparison = Comparison(arguments.parse_args())
    stop_as_an_error_does("peers")
    try:
        asyncio.run(comparison.everything())
    finally:
        comparison.rig.run("stop")
        comparison.table()


if __name__ == "__main__":
    main()
