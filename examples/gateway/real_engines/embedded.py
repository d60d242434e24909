"""The gateway of forty lines (examples/embedding/axum_gateway.rs) in front of real engines.

It says nothing of what it expects, so the engines are the judges: a prompt that is sent again, after its events, must be sent to
the pod that has it. By chance half of them would. One at a time, so that no pod has anything else to do: where the pod that has a
prompt is busy, the default may rightly compute it elsewhere.
"""

import asyncio
import random
import subprocess

import aiohttp

from pods import BLOCK

PORT = 18110


class Embedded:
    def __init__(self, binary, model, pods: int):
        addresses = [f"127.0.0.1:{18000 + n},tcp://127.0.0.1:{18560 + n}" for n in range(1, pods + 1)]
        words = [binary, f"127.0.0.1:{PORT}", "tiny", str(BLOCK), model / "tokenizer.json", *addresses]
        self.process = subprocess.Popen(words)
        self.random = random.Random(7)

    async def ready(self, session: aiohttp.ClientSession) -> None:
        for _ in range(100):
            try:
                if (await self.ask(session, "w1"))[0] == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
        raise SystemExit("judge: the embedded gateway is not ready")

    async def ask(self, session: aiohttp.ClientSession, text: str) -> tuple[int, int, int]:
        """Status, prompt tokens, and those of them that were cached."""
        body = {"model": "tiny", "prompt": text, "max_tokens": 2, "temperature": 0}
        async with session.post(f"http://127.0.0.1:{PORT}/v1/completions", json=body) as response:
            usage = (await response.json(content_type=None)).get("usage") or {}
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            return response.status, usage.get("prompt_tokens", 0), cached

    async def run(self, session: aiohttp.ClientSession, prompts: int, rounds: int) -> tuple[int, int, int]:
        """Answers, those that had all of their prompt cached that can be, and those that failed."""
        texts = [" ".join(f"w{self.random.randrange(4000)}" for _ in range(self.random.randrange(100, 400))) for _ in range(prompts)]
        whole = failed = 0
        for turn in range(rounds + 1):
            answers = [await self.ask(session, text) for text in texts]
            # Events are heard within milliseconds, on busy cores too.
            await asyncio.sleep(1.0)
            failed += sum(status != 200 for status, _, _ in answers)
            if turn > 0:
                # The last token is always computed.
                whole += sum(cached == (tokens - 1) // BLOCK * BLOCK for _, tokens, cached in answers)
        return prompts * rounds, whole, failed

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
