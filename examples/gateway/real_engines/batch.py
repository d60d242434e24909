"""An offline batch on real vLLM pods whose caches are too small: prompt tokens computed by the engines' own counters, against the plan's.

    rig.sh install
    cargo build --release -p pointsman-batch --features tokenizers
    target/real_engines/venv/bin/python examples/gateway/real_engines/batch.py

Questions about documents, some of which are about several versions of one text, in no order. Planned as a whole by `batch`, and in order of
arrival, each from empty caches. Ends with an error if a request fails, or if the engines compute more than the plan says by over a tenth.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from pods import BLOCK, ROOT, Rig, counted, over_rig, parser

# Requests that order of arrival has in flight at each pod: as many as a pod runs.
IN_FLIGHT = 8
SLACK = 1.1


def made(seed: int, requests: int) -> list[dict]:
    """Bodies of requests, shuffled."""
    chance = random.Random(seed)
    words = lambda low, high: " ".join(f"w{chance.randrange(4000)}" for _ in range(chance.randrange(low, high)))
    system, bodies = words(60, 70), []
    while len(bodies) < requests:
        text = f"{system} {words(100, 700)}"
        for _ in range(chance.choice((1, 1, 3))):
            version = f"{text} {words(60, 300)}"
            for _ in range(chance.randrange(1, 12)):
                answer = chance.choice((4, 8, 8, 16, 48))
                prompt = f"{version} {words(5, 40)}"
                bodies.append({"model": "tiny", "prompt": prompt, "max_tokens": answer, "temperature": 0, "ignore_eos": True})
    chance.shuffle(bodies)
    return bodies[:requests]


def url(n: int) -> str:
    return f"http://127.0.0.1:{18000 + n}"


async def planned(options, numbers: list[int], bodies: list[dict]) -> dict[str, int]:
    """Runs the batch by its plan; the tokens in its summary, by their labels."""
    file = options.rig / "batch.jsonl"
    with file.open("w") as out:
        for nth, body in enumerate(bodies):
            line = {"custom_id": f"{nth}", "method": "POST", "url": "/v1/completions", "body": body}
            out.write(json.dumps(line) + "\n")
    command = [options.batch, "--input", file, "--output", options.rig / "batch.out.jsonl", "--errors", options.rig / "batch.errors.jsonl"]
    command += ["--tokenizer", options.rig / "model/tokenizer.json", "--block-size", str(BLOCK)]
    command += [word for n in numbers for word in ("--pod", url(n))]
    done = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"batch: it failed:\n{done.stdout}")
    print(done.stdout, flush=True)
    return {label: int(number.replace(",", "")) for label, number in re.findall(r"^ *([a-z ]+?)  +([\d,]+)$", done.stdout, re.MULTILINE)}


async def in_order_of_arrival(session: aiohttp.ClientSession, numbers: list[int], bodies: list[dict]) -> None:
    """Runs the batch as it came, by turns."""

    async def some(n: int, mine: list[dict]) -> None:
        while mine:
            async with session.post(f"{url(n)}/v1/completions", json=mine.pop(0)) as response:
                response.raise_for_status()
                await response.read()

    shares = [(n, bodies[at :: len(numbers)]) for at, n in enumerate(numbers)]
    await asyncio.gather(*(some(n, share) for n, share in shares for _ in range(IN_FLIGHT)))


async def measured(session: aiohttp.ClientSession, numbers: list[int], run) -> tuple[float, float, float, object]:
    """From empty caches: prompt tokens, those computed, seconds, and what it returned."""
    for n in numbers:
        async with session.post(f"{url(n)}/reset_prefix_cache") as response:
            response.raise_for_status()
    before, began = await counted(session, numbers), time.monotonic()
    result = await run
    took, after = time.monotonic() - began, await counted(session, numbers)
    asked, found = (later - earlier for earlier, later in zip(before, after))
    return asked, asked - found, took, result


async def everything(options, rig: Rig) -> None:
    numbers, rows = list(range(1, options.pods + 1)), []
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(900)) as session:
        rig.run("stop")
        rig.run("start", *map(str, numbers), BLOCKS=str(options.blocks))
        for seed in range(options.seed, options.seed + options.seeds):
            bodies = made(seed, options.requests)
            asked, computed, took, summary = await measured(session, numbers, planned(options, numbers, bodies))
            _, arrival, arrival_took, _ = await measured(session, numbers, in_order_of_arrival(session, numbers, bodies))
            rows.append((seed, asked, summary["distinct"], summary["by the plan"], computed, arrival, took, arrival_took))
    print("| seed | prompt tokens | distinct | the plan's | computed, planned | computed, in order of arrival | seconds, planned | seconds, in order of arrival |\n|---|---:|---:|---:|---:|---:|---:|---:|")
    for seed, *tokens, took, arrival_took in rows:
        print(f"| {seed} | {' | '.join(f'{number:,.0f}' for number in tokens)} | {took:.1f} | {arrival_took:.1f} |")
    for seed, _, _, plan, computed, *_ in rows:
        if computed > SLACK * plan:
            sys.exit(f"batch: seed {seed}: the engines computed {computed:.0f} tokens, {computed / plan:.2f} times the plan's")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--batch", type=Path, default=ROOT / "target/release/batch")
    arguments.add_argument("--pods", type=int, default=2, choices=range(1, 10))
    arguments.add_argument("--blocks", type=int, default=200, help="blocks of a pod's cache")
    arguments.add_argument("--requests", type=int, default=300)
    arguments.add_argument("--seeds", type=int, default=3)
    over_rig("batch", arguments.parse_args(), everything)


if __name__ == "__main__":
    main()
