"""One trace on real vLLM pods and in the simulator: do rules come in the same order?

    rig.sh install
    cargo build --release -p pointsman-gateway -p pointsman-simulator
    cargo run --release -p pointsman-lab --example traffic -- --rows conversation 2000 1 > trace.jsonl
    target/real_engines/venv/bin/python examples/gateway/real_engines/replay.py --trace trace.jsonl

A trace in Mooncake's format, such as Mooncake's own, is made smaller until a tiny model on CPUs can serve it: a block becomes one of
32 tokens, answers shrink alike, times are scaled to a share of what the pods answer flat out. The pods' costs are measured first, all
pods at once, since they share cores. Then each seed's part of the trace is sent at its times behind every rule, from empty caches, and
the same part is simulated with those costs, pods and caches.

For each figure and each two rules: their difference seed by seed with its 95% interval, on engines and simulated. Ends with 1 where both
intervals exclude zero on different sides. Hits are vLLM's own counters.

`--check` shows that it can say no. `docs/routing-quality.md` has what it showed.
"""

import asyncio
import gzip
import itertools
import json
import math
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from pods import BLOCK, ROOT, Gateway, Rig, counted, over_rig, parser, pod

PORT = 18100
# Tokens of the rig's pods: a prompt and its answer, a step, and how many run at once.
LONGEST, STEP_TOKENS, RUNNING = 2048, 2048, 8
# The least of a figure that counts as a difference, as a share of it.
ALIKE = 0.01


class Part:
    """Requests of a trace, small enough for the rig: when each comes (s), the ids of its blocks, tokens of its answer."""

    def __init__(self, rows: list[dict], block: int, seconds: float):
        shrink = BLOCK / block
        self.requests = []
        for row in rows:
            prompt = max(1, min(round(row["input_length"] * shrink), LONGEST - 64))
            answer = max(1, min(round(row["output_length"] * shrink), 63))
            self.requests.append([row["timestamp"] / 1e3, row["hash_ids"][: math.ceil(prompt / BLOCK)], prompt, answer])
        first, last = self.requests[0][0], self.requests[-1][0]
        scale = seconds / max(last - first, 1e-3)
        for request in self.requests:
            request[0] = (request[0] - first) * scale

    def tokens(self, at: int) -> list[int]:
        _, ids, prompt, _ = self.requests[at]
        each = (random.Random(one).choices(range(10, 4000), k=BLOCK) for one in ids)
        return list(itertools.chain.from_iterable(each))[:prompt]

    def write(self, path: Path) -> None:
        """As the simulator reads it. Each request is a session of its own: nobody sends an answer of these pods back to them."""
        with open(path, "w") as file:
            for number, (at, ids, prompt, answer) in enumerate(self.requests):
                row = {"timestamp": at * 1e3, "input_length": prompt, "output_length": answer, "hash_ids": ids, "session_id": number}
                file.write(json.dumps(row) + "\n")


def read(path: Path) -> tuple[list[dict], int]:
    """Rows and the tokens of their blocks."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if row["hash_ids"]]
    widest = max(math.ceil(row["input_length"] / len(row["hash_ids"])) for row in rows)
    return rows, 1 << (widest - 1).bit_length()


async def answered(session: aiohttp.ClientSession, port: int, tokens: list[int], output: int) -> tuple[float, float, list[float]]:
    """Seconds to the first token and to the end, and the gaps between tokens."""
    body = {"model": "tiny", "prompt": tokens, "max_tokens": output, "temperature": 0, "ignore_eos": True, "stream": True}
    began, times, whole = time.monotonic(), [], False
    async with session.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.content:
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
            whole |= line.startswith(b"data: [DONE]")
    if not whole or not times:
        sys.exit("replay: an answer ended too early")
    return times[0] - began, times[-1] - began, [after - before for before, after in itertools.pairwise(times)]


async def measure(session: aiohttp.ClientSession, numbers: list[int]) -> dict:
    """The pods' costs as the simulator reads them: prefills of new tokens behind cached ones, and decode steps."""
    chance = random.Random(7)
    some = lambda count: chance.choices(range(10, 4000), k=count)
    everywhere = lambda ask: asyncio.gather(*(ask(18000 + n) for n in numbers))

    async def prefill(cached: int, new: int) -> dict:
        seen = []
        for _ in range(7):
            before = some(cached)

            async def ask(port: int) -> float:
                if cached:
                    await answered(session, port, before, 1)
                return (await answered(session, port, before + some(new), 1))[0]

            seen += await everywhere(ask)
        return {"cached": cached, "new": new, "ms": 1e3 * statistics.median(seen)}

    async def decode(batch: int, context: int) -> dict:
        async def ask(port: int) -> float:
            each = await asyncio.gather(*(answered(session, port, some(context), 40) for _ in range(batch)))
            # Not those beside the others' prompts; the mean, since tokens of several steps may be read at once.
            return statistics.mean(gap for *_, gaps in each for gap in gaps[-20:])

        seen = [gap for _ in range(3) for gap in await everywhere(ask)]
        return {"batch": batch, "context": context, "ms": 1e3 * statistics.median(seen)}

    cold = [await prefill(0, new) for new in (32, 64, 128, 256, 512, 1024, 1900)]
    warm = [await prefill(cached, new) for cached in (512, 1024) for new in (32, 128, 512, 1000)]
    return {"prefill": cold + warm, "decode": [await decode(batch, context) for batch in (1, 2, 4, 8) for context in (64, 512, 1500)]}


async def flat_out(session: aiohttp.ClientSession, part: Part, numbers: list[int]) -> float:
    """Requests a second that the pods answer, in turn, each with as many at once as it takes."""
    waiting = iter(range(len(part.requests)))

    async def worker(port: int) -> None:
        for at in waiting:
            await answered(session, port, part.tokens(at), part.requests[at][3])

    began = time.monotonic()
    await asyncio.gather(*(worker(18000 + n) for n in numbers for _ in range(RUNNING)))
    return len(part.requests) / (time.monotonic() - began)


def figures(firsts: list[float], wholes: list[float], hits: float) -> dict[str, float]:
    firsts = sorted(firsts)
    mean = statistics.mean
    return {"TTFT mean, ms": 1e3 * mean(firsts), "TTFT p90, ms": 1e3 * firsts[int(0.9 * len(firsts))], "whole answer, ms": 1e3 * mean(wholes), "hits, %": 100 * hits}


async def on_engines(options, session: aiohttp.ClientSession, part: Part, rule: str, numbers: list[int]) -> dict[str, float]:
    for n in numbers:
        async with session.post(f"http://127.0.0.1:{18000 + n}/reset_prefix_cache") as response:
            response.raise_for_status()
    gateway = Gateway(options.gateway, options.rig, PORT, [pod(n) for n in numbers], profile=rule)
    try:
        await gateway.ready(session)
        asked, found = await counted(session, numbers)
        prompts = [part.tokens(at) for at in range(len(part.requests))]
        start = time.monotonic()

        async def one(at: int):
            await asyncio.sleep(max(0.0, start + part.requests[at][0] - time.monotonic()))
            return await answered(session, PORT, prompts[at], part.requests[at][3])

        seen = await asyncio.gather(*(one(at) for at in range(len(part.requests))))
        later_asked, later_found = await counted(session, numbers)
    finally:
        gateway.stop()
    return figures([first for first, *_ in seen], [whole for _, whole, _ in seen], (later_found - found) / (later_asked - asked))


def simulated(options, part: Part, costs: Path, folder: Path) -> dict[str, dict[str, float]]:
    """By rule."""
    part.write(folder / "part.jsonl")
    words = ["--trace", folder / "part.jsonl", "--requests", "1", "--rate", "0", "--compare", ",".join(options.rules), "--out", folder]
    # vLLM keeps a block for itself.
    fleet = ["--pods", options.pods, "--kv-tokens", (options.blocks - 1) * BLOCK, "--step-tokens", STEP_TOKENS, "--max-running", RUNNING]
    run = [options.simulate, *words, *fleet, "--costs", costs, "--jobs", 2]
    subprocess.run(list(map(str, run)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    outcomes = json.loads((folder / "report.json").read_text())["outcomes"]
    return {outcome["policy"]: of_outcome(outcome) for outcome in outcomes}


def of_outcome(outcome: dict) -> dict[str, float]:
    ends, shares = zip(*outcome["ttft_distribution"])
    middles = [(low + high) / 2 for low, high in itertools.pairwise((0, *ends))]
    weights = [high - low for low, high in itertools.pairwise((0, *shares))]
    mean = sum(middle * weight for middle, weight in zip(middles, weights))
    whole = outcome["whole_us"] / outcome["requests"]
    return {"TTFT mean, ms": mean / 1e3, "TTFT p90, ms": outcome["ttft_us"]["p90"] / 1e3, "whole answer, ms": whole / 1e3, "hits, %": 100 * outcome["hit_rate"]}


def interval(differences: list[float]) -> tuple[float, float]:
    """The mean difference and how far its 95% interval reaches."""
    # Student's t by the number of seeds.
    quantile = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36}.get(len(differences), 2.3)
    return statistics.mean(differences), quantile * statistics.stdev(differences) / math.sqrt(len(differences))


def order(differences: list[float], size: float) -> int:
    """Whether they are surely above zero (1) or below (-1), by more than next to nothing."""
    mean, reach = interval(differences)
    return 0 if abs(mean) <= max(reach, ALIKE * size) else (1 if mean > 0 else -1)


def judged(rules: list[str], engines: dict, model: dict) -> int:
    """Prints figures and orders; how many orders contradict each other. `engines` and `model`: by rule, one dict of figures a seed."""
    names = list(engines[rules[0]][0])
    middle = lambda of, rule, name: statistics.mean(seed[name] for seed in of[rule])
    print("\n| rule | " + " | ".join(f"{name}: engines | simulated" for name in names) + " |\n|---" + "|---:" * (2 * len(names)) + "|")
    for rule in rules:
        cells = [f"{middle(of, rule, name):.1f}" for name in names for of in (engines, model)]
        print(f"| `{rule}` | " + " | ".join(cells) + " |")
    print("\n| figure | pairs | ordered on engines | simulated | on both | in the same order |\n|---|---:|---:|---:|---:|---:|")
    contradictions = 0
    for name in names:
        orders, pairs = [], list(itertools.combinations(rules, 2))
        for one, other in pairs:
            apart = lambda of: [a[name] - b[name] for a, b in zip(of[one], of[other])]
            orders.append(tuple(order(apart(of), middle(of, one, name)) for of in (engines, model)))
            if -1 in orders[-1] and 1 in orders[-1]:
                contradictions += 1
                print(f"contradicted: {name}, `{one}` against `{other}`", file=sys.stderr)
        both = [pair for pair in orders if all(pair)]
        counts = [sum(1 for pair in orders if pair[0]), sum(1 for pair in orders if pair[1]), len(both), sum(1 for a, b in both if a == b)]
        print(f"| {name} | {len(pairs)} | " + " | ".join(map(str, counts)) + " |")
    return contradictions


async def everything(options, rig: Rig) -> None:
    rows, block = read(options.trace)
    numbers = list(range(1, options.pods + 1))
    folder = options.rig / "replay"
    folder.mkdir(exist_ok=True)
    engines: dict[str, list] = {rule: [] for rule in options.rules}
    model: dict[str, list] = {rule: [] for rule in options.rules}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(600), connector=aiohttp.TCPConnector(limit=0)) as session:
        rig.run("stop")
        rig.run("start", *map(str, numbers), BLOCKS=str(options.blocks))
        costs = folder / "costs.json"
        costs.write_text(json.dumps(await measure(session, numbers), indent=1))
        print(f"measured costs are in {costs}", flush=True)
        part = lambda seed, seconds: Part(rows[(seed - 1) * options.requests :][: options.requests], block, seconds)
        rate = options.load / 100 * await flat_out(session, part(options.seed, 1), numbers)
        print(f"{rate:.2f} requests a second", flush=True)
        for seed in range(options.seed, options.seed + options.seeds):
            one = part(seed, options.requests / rate)
            for rule, seen in simulated(options, one, costs, folder).items():
                model[rule].append(seen)
            # Not always the same one first.
            for rule in random.Random(seed).sample(options.rules, len(options.rules)):
                engines[rule].append(await on_engines(options, session, one, rule, numbers))
                told = [", ".join(f"{name} {value:.1f}" for name, value in of[rule][-1].items()) for of in (engines, model)]
                print(f"seed {seed}, {rule}: engines {told[0]}; simulated {told[1]}", flush=True)
    sys.exit(min(1, judged(options.rules, engines, model)))


def check_itself() -> None:
    """On made-up figures: an order that contradicts is found, one that is not sure is not."""
    clear, opposite, vague = [3.0, 3.1, 2.9], [-3.0, -3.1, -2.9], [3.0, -3.0, 0.5]
    assert [order(some, 100.0) for some in (clear, opposite, vague)] == [1, -1, 0]
    assert order([0.1, 0.1, 0.1], 100.0) == 0, "a thousandth is no difference"
    rules = ["a", "b"]
    made = lambda differences: {"a": [{"x": 100.0 + d} for d in differences], "b": [{"x": 100.0}] * 3}
    assert judged(rules, made(clear), made(opposite)) == 1
    assert judged(rules, made(clear), made(clear)) == judged(rules, made(vague), made(clear)) == 0
    part = Part([{"timestamp": 5e3, "input_length": 1500, "output_length": 600, "hash_ids": [1, 2, 3]}] * 2, 512, 10.0)
    assert part.requests[0] == [0.0, [1, 2, 3], 94, 38] and len(part.tokens(0)) == 94
    print("the program can say no")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--simulate", type=Path, default=ROOT / "target/release/simulate")
    arguments.add_argument("--trace", type=Path)
    arguments.add_argument("--rules", type=lambda text: text.split(","), default=["round_robin", "least_load", "cache_aware", "first_token", "total_latency"])
    arguments.add_argument("--pods", type=int, default=2, choices=range(1, 10))
    arguments.add_argument("--blocks", type=int, default=400, help="blocks of a pod's cache")
    arguments.add_argument("--requests", type=int, default=250, help="of a seed")
    arguments.add_argument("--load", type=float, default=60, help="percent of what the pods answer flat out")
    arguments.add_argument("--seeds", type=int, default=4)
    arguments.add_argument("--check", action="store_true", help="checks this program on made-up figures and ends")
    options = arguments.parse_args()
    if options.check:
        return check_itself()
    if options.trace is None or options.seeds < 2:
        sys.exit("replay: --trace FILE is needed, and two seeds or more")
    over_rig("replay", options, everything)


if __name__ == "__main__":
    main()
