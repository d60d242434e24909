#!/usr/bin/env python3
"""Streams one completion after the other with the official client, until its input ends: openai_loop.py BASE_URL [MODEL].

Needs `pip install openai`. Nothing is tried again. Prints a line for each answer that came whole, and `failed:` and why for each other.
"""

import sys
import threading

import openai


def main(base_url: str, model: str) -> None:
    client = openai.OpenAI(base_url=base_url.rstrip("/") + "/v1", api_key="unused", max_retries=0, timeout=30)
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    turn = 0
    while not stopped.is_set():
        turn += 1
        try:
            print(f"ok  {stream(client, model, turn)} chunks", flush=True)
        except Exception as error:  # Whatever a client of it would see.
            print(f"failed: {error!r}", flush=True)


def stream(client: openai.OpenAI, model: str, turn: int) -> int:
    """The pieces of an answer, which has to come to its end."""
    messages = [{"role": "user", "content": f"Say a few words about the number {turn}."}]
    pieces, ends = 0, []
    for chunk in client.chat.completions.create(model=model, messages=messages, max_tokens=20, stream=True):
        pieces += 1
        ends += [choice.finish_reason for choice in chunk.choices if choice.finish_reason]
    assert ends in (["stop"], ["length"]), f"cut off: {ends}"
    return pieces


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "sim")
