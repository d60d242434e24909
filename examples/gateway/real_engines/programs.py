"""Agents' programs on real vLLM pods whose caches are too small, with programs recognized and without: hits by the engines' own counters.

    rig.sh install
    cargo build --release -p pointsman-gateway --features tokenizers
    target/real_engines/venv/bin/python examples/gateway/real_engines/programs.py

So many programs at once, each of so many turns with a pause after each, as tools take: a turn has all of the text before it. Behind the default, and
behind the profile `programs` with flow control's `working_set`; no request says whose it is. From empty caches each, the same programs.
"""

import asyncio
import random
import statistics
import sys
import time

import aiohttp

from pods import Gateway, Rig, counted, over_rig, parser, pod, streamed

PORT = 18100
RULES = {
    "total_latency": {"profile": "total_latency"},
    "programs": {
        "profile": "programs",
        "flow_control": {"bands": [{"name": "all", "time_to_live": "600s"}], "saturation": {"working_set": {}}},
    },
}


class Programs:
    def __init__(self, session: aiohttp.ClientSession, seed: int, count: int, turns: int):
        self.session, chance = session, random.Random(seed)
        words = lambda number: " ".join(f"w{chance.randrange(4000)}" for _ in range(number))
        system = words(96)
        self.texts = [f"{system} {words(chance.randrange(40, 160))}" for _ in range(count)]
        # Of each turn what a tool printed, the tokens of the answer, and the pause after it.
        turn = lambda: (words(chance.randrange(20, 140)), chance.randrange(8, 24), min(chance.expovariate(1 / 0.4), 4.0))
        self.turns = [[turn() for _ in range(turns)] for _ in range(count)]
        self.took, self.failed = [], 0

    async def run(self) -> None:
        await asyncio.gather(*(self.program(at) for at in range(len(self.texts))))

    async def program(self, at: int) -> None:
        began = time.monotonic()
        for printed, tokens, pause in self.turns[at]:
            await self.turn(at, printed, tokens)
            await asyncio.sleep(pause)
        self.took.append(time.monotonic() - began)

    async def turn(self, at: int, printed: str, tokens: int) -> None:
        prompt = f"{self.texts[at]} {printed}"
        body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        answer = await streamed(self.session, PORT, body)
        self.failed += answer is None
        self.texts[at] = f"{prompt} {answer or ''}"


async def run(options, session: aiohttp.ClientSession, name: str, seed: int) -> tuple[float, float, float]:
    """Prompt tokens computed, the share of hits, and the mean time of a program."""
    numbers = list(range(1, options.pods + 1))
    for n in numbers:
        async with session.post(f"http://127.0.0.1:{18000 + n}/reset_prefix_cache") as response:
            response.raise_for_status()
    tokenizer = {"tokenizer": {"file": str(options.rig / "model/tokenizer.json")}}
    gateway = Gateway(options.gateway, options.rig, PORT, [pod(n) for n in numbers], model=tokenizer, **RULES[name])
    try:
        await gateway.ready(session)
        before = await counted(session, numbers)
        programs = Programs(session, seed, options.programs, options.turns)
        await programs.run()
        after = await counted(session, numbers)
        caches = {one["kv_tokens"] for one in (await gateway.state(session))["pods"]}
    finally:
        gateway.stop()
    asked, found = (later - earlier for earlier, later in zip(before, after))
    if asked == 0 or programs.failed:
        sys.exit(f"programs: {name}: {programs.failed} requests failed, {asked:.0f} prompt tokens were looked up")
    mean = statistics.mean(programs.took)
    print(f"seed {seed}, {name}: {asked - found:.0f} tokens computed of {asked:.0f}, {mean:.1f} s a program; caches of {caches}", flush=True)
    return asked - found, 100 * found / asked, mean


async def everything(options, rig: Rig) -> None:
    seen: dict[str, list[tuple[float, float, float]]] = {}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(900)) as session:
        rig.run("stop")
        rig.run("start", *map(str, range(1, options.pods + 1)), BLOCKS=str(options.blocks))
        for seed in range(options.seed, options.seed + options.seeds):
            for name in RULES:
                seen.setdefault(name, []).append(await run(options, session, name, seed))
    print("\n| rule | tokens computed, median | hits | mean time of a program |\n|---|---:|---:|---:|")
    for name, runs in seen.items():
        computed, hits, mean = (statistics.median(column) for column in zip(*runs))
        print(f"| {name} | {computed:,.0f} | {hits:.1f}% | {mean:.1f} s |")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--pods", type=int, default=2, choices=range(1, 10))
    arguments.add_argument("--blocks", type=int, default=200, help="blocks of a pod's cache")
    arguments.add_argument("--programs", type=int, default=24)
    arguments.add_argument("--turns", type=int, default=12)
    arguments.add_argument("--seeds", type=int, default=2)
    over_rig("programs", arguments.parse_args(), everything)


if __name__ == "__main__":
    main()
