"""Prefill → decode: answers equal those of one pod, also where a pod dies in between."""

import asyncio
import json
import tempfile
import time

import aiohttp

from faults import Trap
from pods import pod
from published import Published
from traffic import Traffic

EVIL = {"kv_transfer_params": {"do_remote_prefill": True, "remote_host": "192.0.2.1", "remote_port": 9}}


class Handoffs:
    """Pod 1 prefills, pod 2 decodes, behind a trap. A second gateway follows both pods' events all the time."""

    def __init__(self, judge, session: aiohttp.ClientSession):
        self.judge, self.session = judge, session
        self.trap = Trap(2)
        # What the decode pod does with blocks that it cannot fetch.
        self.policy = "recompute"

    async def run(self) -> None:
        await self.judge.start(**nixl("recompute"))
        await self.trap.start()
        # The decode pod that is started in between fails what it cannot fetch, as vLLM does unless told otherwise.
        await self.through("nixl", [self.prefill_dies, self.lease_runs_out, self.decode_dies, self.prefill_dies])
        self.policy = "recompute"
        with tempfile.TemporaryDirectory() as folder:
            await self.judge.start(**shared_storage(folder))
            await self.through("shared_storage", [])

    async def through(self, handoff: str, faults: list) -> None:
        """Compares answers by a handoff with those of one pod, before and after each fault; then the index with both."""
        pods = [pod(1, role="prefill"), pod(2, role="decode", url=f"http://127.0.0.1:{self.trap.port}")]
        gateway = self.judge.gateway(18100, pods, profile="prefill_decode", handoff=handoff)
        follower = self.judge.gateway(18101, [pod(1), pod(2)])
        self.traffic = Traffic(self.session, [18101], self.judge.options.seed, 6)
        published = Published(2)
        try:
            for each in (gateway, follower):
                await each.ready(self.session)
            await self.equal_answers(int(40 * self.judge.options.scale))
            for fault in faults:
                await fault()
                for each in (gateway, follower):
                    await each.ready(self.session)
                await self.settled(gateway, fault.__name__)
                await self.equal_answers(6)
            # Prompts that went through all of this, by the gateway that only listened.
            await published.begin(self.session, [follower])
            self.traffic.between = lambda: published.reached(self.session, [follower])
            await self.traffic.run(int(60 * self.judge.options.scale), 1)
        finally:
            published.close()
            await asyncio.sleep(1.2)
            for each in (gateway, follower):
                each.stop()
        self.judge.tally(f"prefill to decode by {handoff}, the prefill pod's answers", [gateway], must_be_exact=False)
        self.judge.tally(f"prefill to decode by {handoff}, both pods afterwards", [follower], must_be_exact=True)

    async def equal_answers(self, requests: int) -> None:
        """Whole and streamed, also where the decode pod holds a part of the prompt, and whatever handoff a client names."""
        equal = failed = 0
        for at in range(requests):
            prompt, body = self.next(at)
            both = await self.answer(18100, body | {"stream": at % 2 == 1} | (EVIL if at % 5 == 4 else {}))
            alone = await self.answer(18001, body)
            equal += alone == both
            if self.policy == "fail" and both[1] >= 500:
                failed += 1
            elif alone != both:
                print(f"handoffs: {at}: alone {alone}, by two pods {both}", flush=True)
            self.traffic.conversations[at % 6] = prompt + alone[0]
        print(f"handoffs: {equal} of {requests} answers equal those of one pod, {failed} failed", flush=True)
        if equal + failed != requests:
            self.judge.verdicts.append(f"handoffs: {requests - equal - failed} of {requests} answers differ from those of one pod")

    async def prefill_dies(self) -> None:
        """The prefill pod is killed after it answered, before the decode pod fetches."""

        async def die() -> None:
            self.judge.rig.kill(1)

        self.trap.then = die
        _, body = self.next(0)
        began = time.monotonic()
        both = await self.answer(18100, body)
        print(f"the prefill pod dies before the pull: {both[1]} after {time.monotonic() - began:.1f} s", flush=True)
        await asyncio.to_thread(self.judge.rig.run, "start", "1", **nixl("recompute"))
        self.check_answer("the prefill pod dies", both, await self.answer(18001, body))

    async def decode_dies(self) -> None:
        """The decode pod is killed in mid-stream: the client sees that the answer is not whole."""
        _, body = self.next(1)
        body |= {"prompt": body["prompt"][:600], "stream": True, "max_tokens": 1200}
        lines, error = [], None
        try:
            async with self.session.post("http://127.0.0.1:18100/v1/completions", json=body) as response:
                async for line in response.content:
                    lines.append(line)
                    if len(lines) == 20:
                        self.judge.rig.kill(2)
        except aiohttp.ClientError as broken:
            error = type(broken).__name__
        told = error or next((line.decode().strip()[:200] for line in lines if b'"error"' in line), None)
        print(f"the decode pod dies in mid-stream: {len(lines)} lines, then {told}", flush=True)
        # A client's library reads the error, or fails: what comes after it does not matter.
        if told is None:
            self.judge.verdicts.append("the decode pod dies in mid-stream, and the client is not told")
        self.policy = "fail"
        await asyncio.to_thread(self.judge.rig.run, "start", "2", **nixl(self.policy))

    async def lease_runs_out(self) -> None:
        """The decode request arrives after the prefill pod has given its blocks to others."""

        async def late() -> None:
            await asyncio.sleep(2 * LEASE_SECONDS)
            others = Traffic(self.session, [18001], 7, 14)
            await others.run(60, 4)

        self.trap.then = late
        _, body = self.next(2)
        both = await self.answer(18100, body)
        print(f"a lease that runs out: {both[1]}", flush=True)
        self.check_answer("a lease that runs out", both, await self.answer(18001, body))

    def check_answer(self, name: str, both, alone) -> None:
        """An error may be answered; an answer must be right."""
        if both[1] == 200 and both != alone:
            self.judge.verdicts.append(f"{name}: the answer is {both}, of one pod {alone}")

    async def settled(self, gateway, name: str) -> None:
        state = await gateway.state(self.session)
        left = {each["name"]: each["in_flight"] for each in state["pods"] if each["in_flight"]}
        if left:
            self.judge.verdicts.append(f"{name}: requests are still counted at {left}")

    def next(self, at: int) -> tuple[list[int], dict]:
        prompt = (self.traffic.conversations[at % 6] + self.traffic.words(40))[:1600]
        return prompt, {"model": "tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True, "return_token_ids": True}

    async def answer(self, port: int, body: dict) -> tuple[list[int], int]:
        """The token ids of an answer, streamed or whole, and its status."""
        async with self.session.post(f"http://127.0.0.1:{port}/v1/completions", json=body) as response:
            if response.status != 200:
                print(f"handoffs: {response.status} {(await response.text())[:300]}", flush=True)
                return [], response.status
            if not body.get("stream"):
                return (await response.json(content_type=None))["choices"][0]["token_ids"], 200
            ids: list[int] = []
            async for line in response.content:
                if line.startswith(b"data: {"):
                    ids += json.loads(line[6:])["choices"][0].get("token_ids") or []
            return ids, 200


def nixl(policy: str) -> dict[str, str]:
    """Of pods with NIXL, and what they do when blocks cannot be fetched. The lease is short, so that one can run out."""
    lease = {"kv_connector_extra_config": {"kv_lease_duration": LEASE_SECONDS}}
    connector = {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu", "kv_load_failure_policy": policy}
    # Connections outlive the lease.
    return {"BLOCKS": "600", "CONNECTOR": json.dumps(connector | lease), "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "120"}


def shared_storage(folder: str) -> dict[str, str]:
    """Of pods that hand over by files: vLLM's example of a connector."""
    storage = {"kv_connector_extra_config": {"shared_storage_path": folder}}
    return {"BLOCKS": "600", "CONNECTOR": json.dumps({"kv_connector": "ExampleConnector", "kv_role": "kv_both"} | storage)}


LEASE_SECONDS = 12
