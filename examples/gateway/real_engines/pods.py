"""Pods of the rig, and gateways over them."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import aiohttp

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
# Tokens of a block.
BLOCK = 32


class Rig:
    """The pods, by the rig's script."""

    def __init__(self, folder: Path):
        self.folder = folder

    def run(self, *words: str, **settings: str) -> None:
        environment = {**os.environ, "RIG": str(self.folder), **settings}
        subprocess.run([str(HERE / "rig.sh"), *words], env=environment, check=True, stdout=subprocess.DEVNULL)

    def kill(self, n: int) -> None:
        """As `rig.sh kill`, at once."""
        pid = self.folder / f"pod-{n}.pid"
        os.killpg(int(pid.read_text()), signal.SIGKILL)
        pid.unlink()


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
            # No balancer has to notice that it stops.
            "drain_grace": "0s",
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


async def streamed(session: aiohttp.ClientSession, port: int, body: dict) -> str | None:
    """The text of a streamed completion; none if it failed or has no end."""
    answer, is_whole = [], False
    try:
        async with session.post(f"http://127.0.0.1:{port}/v1/completions", json={**body, "stream": True}) as response:
            async for line in response.content:
                is_whole |= line.startswith(b"data: [DONE]")
                if line.startswith(b"data: {"):
                    answer += [choice["text"] for choice in json.loads(line[6:])["choices"]]
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError):
        return None
    return "".join(answer).strip() if response.status == 200 and is_whole else None


async def counted(session: aiohttp.ClientSession, numbers: list[int]) -> tuple[float, float]:
    """Prompt tokens that these pods looked up, and those that they found."""
    totals = {"vllm:prefix_cache_queries_total": 0.0, "vllm:prefix_cache_hits_total": 0.0}
    for n in numbers:
        async with session.get(f"http://127.0.0.1:{18000 + n}/metrics") as response:
            for line in (await response.text()).splitlines():
                name = line.split("{")[0]
                if name in totals:
                    totals[name] += float(line.rsplit(" ", 1)[1])
    asked, found = totals.values()
    return asked, found


def parser(description: str) -> argparse.ArgumentParser:
    """The options of every program over the rig."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rig", type=Path, default=Path(os.environ.get("RIG", ROOT / "target/real_engines")))
    parser.add_argument("--gateway", type=Path, default=ROOT / "target/release/gateway", help="built with the feature `tokenizers` where prompts are texts")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def over_rig(name: str, options: argparse.Namespace, everything) -> None:
    """Runs a program over the rig's pods, which are stopped however it ends."""
    rig = Rig(options.rig)
    stop_as_an_error_does(name)
    try:
        asyncio.run(everything(options, rig))
    finally:
        rig.run("stop")


def stop_as_an_error_does(name: str) -> None:
    """So that pods and gateways are stopped when the program is."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{name}: stopped"))
