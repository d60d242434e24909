"""Multi-turn traffic: growing conversations, odd requests, prompts in every form."""

import asyncio
import json
import random

import aiohttp

# Tokens that pods take, prompt and answer.
LONGEST = 2048


class Traffic:
    """Conversations that grow by turns and begin anew when they are long, many of them on a shared beginning."""

    def __init__(self, session: aiohttp.ClientSession, ports: list[int], seed: int, conversations: int):
        self.session, self.ports, self.random = session, ports, random.Random(seed)
        self.shared = [self.words(self.random.randrange(40, 400)) for _ in range(4)]
        self.conversations = [self.fresh() for _ in range(conversations)]
        self.sent = self.failed = 0
        self.abort_share = self.odd_share = 0.0
        # Awaited between an answer and the next request.
        self.between = None
        # Where a conversation begins anew.
        self.longest = 1700
        # `ids`, `text` or `chat`: how prompts are given.
        self.form = "ids"
        # Conversation n is of model n, counted round.
        self.models = ["tiny"]
        # What odd requests have.
        self.odd = ODD

    def words(self, count: int) -> list[int]:
        return [self.random.randrange(3, 4096) for _ in range(count)]

    def fresh(self) -> list[int]:
        return list(self.random.choice(self.shared))

    async def turn(self, at: int) -> None:
        history = self.conversations[at]
        if len(history) > self.longest:
            history = self.fresh()
        prompt = (history + self.words(self.random.randrange(1, 90)))[: LONGEST - 24]
        path, body = self.body(history, prompt)
        body |= {"model": self.models[at % len(self.models)], "max_tokens": self.random.randrange(1, 24), "temperature": 0}
        body |= {"return_token_ids": True, "ignore_eos": True}
        if self.random.random() < self.odd_share:
            body |= self.random.choice(self.odd)
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
                if self.between:
                    await self.between()

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

# Fields by which a client would poison the index or send a pod elsewhere, were they not removed.
POISON = [
    {"vllm_xargs": {"kv_cache_report_mode": "full"}},
    {"kv_transfer_params": {"do_remote_prefill": True, "do_remote_decode": False, "remote_host": "192.0.2.1", "remote_port": 9}},
    {"vllm_xargs": {"kv_transfer_params": "{}"}},
    {"ec_transfer_params": {"do_remote_prefill": True}},
    {"vllm_xargs": {"ec_transfer_params": "{}"}},
    {"sampling_params": {"skip_reading_prefix_cache": True, "extra_args": {"kv_cache_report_mode": "full", "kv_transfer_params": {}, "ec_transfer_params": {}}}},
    {"data_parallel_rank": 0},
]
