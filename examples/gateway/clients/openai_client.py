#!/usr/bin/env python3
"""Talks to a gateway with the official client: openai_client.py BASE_URL [MODEL [engine]]. Needs `pip install openai`.

With `engine` without what engines themselves do not answer: one model by its name.

Prints a line for each check and stops at the first that fails.
"""

import sys

import openai


def main(base_url: str, model: str, is_engine: bool) -> None:
    client = openai.OpenAI(base_url=base_url.rstrip("/") + "/v1", api_key="unused", max_retries=0, timeout=30)
    messages = [
        {"role": "system", "content": "You are a pod that exists only here."},
        {"role": "user", "content": "Say a few words about the sky."},
    ]

    names = [entry.id for entry in client.models.list()]
    assert model in names, f"{model} is not among {names}"
    print(f"ok  models: {', '.join(names)}")

    whole = client.chat.completions.create(model=model, messages=messages, max_tokens=8)
    assert whole.choices[0].message.content, whole
    assert whole.choices[0].finish_reason in ("stop", "length"), whole
    assert whole.usage.prompt_tokens > 0 and 0 < whole.usage.completion_tokens <= 8, whole.usage
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage
    print(f"ok  chat, whole: {whole.usage.completion_tokens} tokens")

    options = {"include_usage": True}
    stream = client.chat.completions.create(
        model=model, messages=messages, max_tokens=8, stream=True, stream_options=options
    )
    pieces, ends, usage = [], [], None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            ends.append(choice.finish_reason)
    assert "".join(pieces), pieces
    assert [end for end in ends if end] in (["stop"], ["length"]), ends
    assert usage is not None and usage.prompt_tokens == whole.usage.prompt_tokens, usage
    print(f"ok  chat, streamed: {len(pieces)} chunks")

    prompt = "Once upon a time there was a railway"
    whole = client.completions.create(model=model, prompt=prompt, max_tokens=8)
    assert whole.choices[0].text and whole.usage.prompt_tokens > 0, whole
    print(f"ok  completion, whole: {whole.usage.completion_tokens} tokens")

    pieces = [
        choice.text
        for chunk in client.completions.create(model=model, prompt=prompt, max_tokens=8, stream=True)
        for choice in chunk.choices
    ]
    assert "".join(pieces), pieces
    print(f"ok  completion, streamed: {len(pieces)} chunks")

    if not is_engine:
        one = client.models.retrieve(model)
        assert one.id == model, one
        print(f"ok  model: {one.id}")

    embedded = client.embeddings.create(model=model, input=["a railway", "a longer railway line"])
    assert [entry.index for entry in embedded.data] == [0, 1] and embedded.usage.prompt_tokens > 0, embedded
    print(f"ok  embeddings: {embedded.usage.prompt_tokens} tokens")

    question = {"model": model, "instructions": "Be brief.", "input": "Say a few words.", "max_output_tokens": 8}
    answer = client.responses.create(**question)
    assert answer.output_text and 0 < answer.usage.output_tokens <= 8, answer
    print(f"ok  response, whole: {answer.usage.output_tokens} tokens")

    pieces, last = [], None
    for event in client.responses.create(**question, stream=True):
        last = event
        if event.type == "response.output_text.delta":
            pieces.append(event.delta)
    assert "".join(pieces) and last.type == "response.completed", last
    assert last.response.usage.input_tokens == answer.usage.input_tokens, last
    print(f"ok  response, streamed: {len(pieces)} pieces")

    expect(openai.NotFoundError, lambda: client.models.retrieve("no/such"))
    expect(openai.NotFoundError, lambda: client.completions.create(model="no-such-model", prompt=prompt))
    expect(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages="no list"))  # type: ignore


def expect(error: type[openai.APIStatusError], call) -> None:
    try:
        call()
    except error as refused:
        assert refused.body, "an error says what is wrong"
        print(f"ok  {error.__name__}: {refused.status_code}")
        return
    raise AssertionError(f"there should have been a {error.__name__}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "sim", sys.argv[3:] == ["engine"])
