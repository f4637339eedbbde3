"""The official client, unchanged, against the gateway."""

from __future__ import annotations

import asyncio

import openai as errors
import pytest
from openai import AsyncOpenAI, OpenAI


def ask(client: OpenAI, text: str = "hi", **named: object) -> object:
    named = {"model": "fake", "max_tokens": 4} | named
    return client.chat.completions.create(messages=[{"role": "user", "content": text}], **named)


def test_a_chat_is_answered(openai: OpenAI) -> None:
    answer = ask(openai)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "fake"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].message.content.startswith("echo:")
    assert answer.choices[0].finish_reason == "length"
    assert (answer.usage.completion_tokens, answer.usage.total_tokens) == (4, 5)


def test_a_completion_is_answered(openai: OpenAI) -> None:
    answer = openai.completions.create(model="fake", prompt="A bus is", max_tokens=3, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.choices[0].text.startswith("echo:")
    assert answer.usage.completion_tokens == 6


def test_an_answer_can_be_handed_back_as_the_next_turn(openai: OpenAI) -> None:
    first = ask(openai).choices[0].message
    messages = [{"role": "user", "content": "hi"}, first, {"role": "user", "content": "go on"}]
    again = openai.chat.completions.create(model="fake", messages=messages, max_tokens=4)
    assert again.choices[0].message.content


def test_logprobs_have_openais_form(openai: OpenAI) -> None:
    chat = ask(openai, logprobs=True, top_logprobs=1).choices[0].logprobs
    assert len(chat.content) == 4
    assert chat.content[0].bytes == list(b"0")
    assert chat.content[0].top_logprobs[0].token == "0"
    text = openai.completions.create(model="fake", prompt="a", max_tokens=2, logprobs=1).choices[0].logprobs
    assert (text.tokens, text.text_offset) == (["0", "1"], [0, 1])


async def test_many_ask_at_once(async_openai: AsyncOpenAI) -> None:
    answers = await asyncio.gather(
        *(
            async_openai.chat.completions.create(
                model="fake", messages=[{"role": "user", "content": f"number {i}"}], max_tokens=4
            )
            for i in range(50)
        )
    )
    assert len({answer.choices[0].message.content for answer in answers}) == 50


def test_a_stream_of_a_chat_has_one_chunk_for_each_sample_and_the_usage(openai: OpenAI) -> None:
    chunks = list(ask(openai, stream=True, n=2, stream_options={"include_usage": True}))
    assert [len(chunk.choices) for chunk in chunks] == [1, 1, 0]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert [chunk.choices[0].index for chunk in chunks[:2]] == [0, 1]
    assert chunks[0].choices[0].delta.content.startswith("echo:")
    assert chunks[0].choices[0].finish_reason == "length"
    assert chunks[2].usage.completion_tokens == 8


def test_the_streaming_helper_puts_the_chat_together(openai: OpenAI) -> None:
    asked = {"messages": [{"role": "user", "content": "hi"}], "metadata": {"fake_tokens": 2}}
    with openai.chat.completions.stream(model="fake", max_completion_tokens=4, **asked) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    assert kinds == ["chunk", "content.delta", "content.done"]
    assert whole.choices[0].message.content.startswith("echo:")
    assert whole.choices[0].finish_reason == "stop"


async def test_a_stream_of_a_completion(async_openai: AsyncOpenAI) -> None:
    stream = await async_openai.completions.create(model="fake", prompt="a", max_tokens=2, stream=True)
    chunks = [chunk async for chunk in stream]
    assert [chunk.choices[0].finish_reason for chunk in chunks] == ["length"]


def test_the_models_are_what_workers_serve(openai: OpenAI) -> None:
    assert [model.id for model in openai.models.list()] == ["fake", "alias"]
    assert openai.models.retrieve("fake").owned_by == "busload"
    assert ask(openai, model="alias").model == "alias"
    with pytest.raises(errors.NotFoundError):
        openai.models.retrieve("gpt/none")
    with pytest.raises(errors.NotFoundError) as told:
        ask(openai, model="gpt-none")
    assert told.value.code == "not_found"
    assert told.value.param == "model"


@pytest.mark.parametrize(
    ("named", "param"),
    [
        ({"temperature": 9e9}, "temperature"),
        ({"tools": [{"type": "function", "function": {"name": "a"}}]}, "tools"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"extra_body": {"top_g": 1}}, "top_g"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"n": 99}, "n"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
    ],
)
def test_what_is_wrong_with_a_body_is_a_bad_request_that_names_it(
    openai: OpenAI, named: dict[str, object], param: str
) -> None:
    with pytest.raises(errors.BadRequestError) as told:
        ask(openai, **named)
    assert told.value.param == param
    assert told.value.type == "invalid_request_error"


def test_what_the_worker_refuses_is_a_bad_request_too(openai: OpenAI) -> None:
    with pytest.raises(errors.BadRequestError) as told:
        ask(openai, metadata={"fake": "refuse"})
    assert told.value.code == "invalid_request"


def test_a_request_that_breaks_the_engine_is_an_internal_server_error(openai: OpenAI) -> None:
    with pytest.raises(errors.InternalServerError) as told:
        ask(openai, metadata={"fake": "error"})
    assert told.value.code in ("poison", "engine_error")


def test_a_deadline_that_has_passed_is_a_bad_request(openai: OpenAI) -> None:
    with pytest.raises(errors.BadRequestError) as told:
        ask(openai, extra_body={"deadline": 1000})
    assert (told.value.code, told.value.param) == ("deadline_passed", "deadline")
