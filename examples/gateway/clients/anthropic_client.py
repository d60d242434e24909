#!/usr/bin/env python3
"""Talks to a gateway with Anthropic's client: anthropic_client.py BASE_URL [MODEL]. Needs `pip install anthropic`.

Prints a line for each check and stops at the first that fails.
"""

import sys

import anthropic


def main(base_url: str, model: str) -> None:
    client = anthropic.Anthropic(base_url=base_url, api_key="unused", max_retries=0, timeout=30)
    asked = {
        "model": model,
        "max_tokens": 8,
        "system": [{"type": "text", "text": "You are a pod that exists only here."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Say a few words about the sky."}]}],
    }

    whole = client.messages.create(**asked)
    assert whole.content[0].text and whole.stop_reason in ("end_turn", "max_tokens"), whole
    assert 0 < whole.usage.output_tokens <= 8, whole.usage
    print(f"ok  message, whole: {whole.usage.output_tokens} tokens")

    with client.messages.stream(**asked) as stream:
        pieces = list(stream.text_stream)
        last = stream.get_final_message()
    assert "".join(pieces) == last.content[0].text and last.stop_reason, last
    print(f"ok  message, streamed: {len(pieces)} pieces")

    counted = client.messages.count_tokens(**{name: asked[name] for name in ("model", "system", "messages")})
    cached = whole.usage.cache_read_input_tokens or 0
    assert counted.input_tokens == whole.usage.input_tokens + cached, (counted, whole.usage)
    print(f"ok  tokens counted: {counted.input_tokens}")

    for error, wrong in (
        (anthropic.NotFoundError, {"model": "no-such-model"}),
        (anthropic.BadRequestError, {"messages": "no list"}),
    ):
        try:
            client.messages.create(**{**asked, **wrong})
        except error as refused:
            assert refused.body["type"] == "error" and refused.body["error"]["message"], refused.body
            print(f"ok  {error.__name__}: {refused.status_code}")
        else:
            raise AssertionError(f"there should have been a {error.__name__}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) == 3 else "sim")
