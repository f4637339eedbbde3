"""From OpenAI's bodies to requests, and from results and errors to OpenAI's objects: pure functions."""

from __future__ import annotations

from typing import Any

import pytest

from busload.openai_api import (
    ParameterInvalid,
    as_answer,
    as_chunks,
    as_refusal,
    as_request,
    as_requests,
    failed,
    joined,
    read_body,
)
from busload_shared.errors import (
    BusloadError,
    BusloadUnavailable,
    DeadlineUnmeetable,
    QueueFull,
    RequestInvalid,
    RequestUnknown,
    ResultExpired,
    ResultTimeout,
)
from busload_shared.result import Output, Result, ResultError, Timing, TokenLogprob, Usage

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "hi"}]


def chat(**named: Any) -> dict[str, Any]:
    return as_request(CHAT, {"messages": HI} | named, id="a").model_dump(exclude_defaults=True)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"max_tokens": 5}, "max_tokens", 5),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "max_tokens", 6),
        ({"stop": "a"}, "stop", ("a",)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"logprobs": True}, "logprobs", 0),
        ({"logprobs": True, "top_logprobs": 3}, "logprobs", 3),
        ({"temperature": 0}, "temperature", 0.0),
        ({"seed": 7}, "seed", 7),
        ({"top_k": 5}, "top_k", 5),
        ({"priority": -3}, "priority", -3),
        ({"ttl_s": 5}, "ttl_s", 5.0),
        ({"metadata": {"a": "b"}}, "metadata", {"a": "b"}),
        ({"response_format": {"type": "json_object"}}, "json_schema", {"type": "object"}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "null"}}}},
            "json_schema",
            {"type": "null"},
        ),
        ({"guided_json": '{"type":"null"}'}, "json_schema", {"type": "null"}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", ("a", "b")),
        ({"guided_regex": "a+"}, "regex", "a+"),
    ],
)
def test_what_a_parameter_becomes(given: dict[str, Any], field: str, value: object) -> None:
    assert chat(**given)[field] == value


def test_what_asks_for_nothing_is_taken() -> None:
    nothing = {
        "tools": [], "tool_choice": "auto", "parallel_tool_calls": True, "logit_bias": {}, "store": False, "user": "u",
        "audio": None, "modalities": ["text"], "service_tier": "flex", "response_format": {"type": "text"},
        "stream_options": None, "prediction": {"type": "content", "content": "a"},
    }  # fmt: skip
    assert chat(**nothing) == chat()


def test_parts_are_joined_and_a_developer_is_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    answer = {"role": "assistant", "content": "c", "refusal": None, "annotations": []}
    made = as_request(CHAT, {"messages": [{"role": "developer", "content": parts}, answer, *HI]}, id="a")
    assert made.messages is not None
    assert [(one.role, one.content) for one in made.messages] == [
        ("system", "a\nb"),
        ("assistant", "c"),
        ("user", "hi"),
    ]


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages", "unsupported_parameter"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [1]}]}, "messages", "unsupported_parameter"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages", "invalid_value"),
        ({"tools": [1]}, "tools", "unsupported_parameter"),
        ({"audio": {}}, "audio", "unsupported_parameter"),
        ({"store": True}, "store", "unsupported_parameter"),
        ({"logit_bias": {"1": 1}}, "logit_bias", "unsupported_parameter"),
        ({"max_token": 5}, "max_token", "unknown_parameter"),
        ({"top_logprobs": 2}, "top_logprobs", "invalid_value"),
        ({"temperature": "hot"}, "temperature", "invalid_value"),
        ({"max_completion_tokens": -1}, "max_completion_tokens", "invalid_value"),
        ({"guided_choice": ["a"], "guided_regex": "a"}, "guided_choice", "invalid_value"),
        ({"guided_json": "no"}, "guided_json", "invalid_value"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "invalid_value"),
    ],
)
def test_what_is_refused_and_by_which_name(given: dict[str, Any], param: str, code: str) -> None:
    with pytest.raises(ParameterInvalid) as told:
        chat(**given)
    assert (told.value.param, told.value.code) == (param, code)


def test_a_prompt_is_a_text_or_token_ids() -> None:
    assert as_request(TEXT, {"prompt": ["a"]}, id="a").prompt == "a"
    assert as_request(TEXT, {"prompt": [1, 2]}, id="a").prompt_token_ids == (1, 2)
    assert as_request(TEXT, {"prompt": [[1, 2]]}, id="a").prompt_token_ids == (1, 2)
    for wrong in (["a", "b"], [], "", 5, [[1], [2]], None):
        with pytest.raises(ParameterInvalid) as told:
            as_request(TEXT, {"prompt": wrong}, id="a")
        assert told.value.param == "prompt"


def test_several_prompts_are_as_many_requests() -> None:
    made = as_requests(TEXT, read_body(TEXT, {"prompt": [[1], [2, 3]], "seed": 7}), id="a", max_tokens=9)
    assert [(one.id, one.prompt_token_ids, one.seed, one.max_tokens) for one in made] == [
        ("a-0", (1,), 7, 9),
        ("a-1", (2, 3), 7, 9),
    ]
    assert [one.id for one in as_requests(TEXT, read_body(TEXT, {"prompt": ["a"]}), id="a")] == ["a"]
    assert [one.id for one in as_requests(CHAT, read_body(CHAT, {"messages": HI}), id="a")] == ["a"]


def test_their_results_are_joined_in_order() -> None:
    late = Timing(enqueued_ms=1, finished_ms=9, waited_ms=5)
    early = Timing(enqueued_ms=1, finished_ms=8, waited_ms=6)
    whole = joined([a_result(timing=late), a_result(timing=early)], id="call", n=1)
    assert (whole.id, [one.index for one in whole.outputs], whole.timing) == ("call", [0, 1], late)
    assert whole.usage == Usage(prompt_tokens=2, completion_tokens=4, total_tokens=6)
    assert joined([a_result(usage=None)] * 2, id="call", n=1).usage is None


def test_defaults_are_for_what_the_body_leaves_open() -> None:
    made = as_request(TEXT, {"prompt": "a", "max_tokens": 3}, id="a", max_tokens=9, priority=4, ttl_s=5.0)
    assert (made.max_tokens, made.priority, made.ttl_s) == (3, 4, 5.0)
    assert as_request(TEXT, {"prompt": "a", "deadline": 9e9}, id="a", ttl_s=5.0).ttl_s is None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"prompt":"\\ud800"}', {"prompt": "\ud800"}])
def test_what_is_no_body(body: Any) -> None:
    with pytest.raises(ParameterInvalid):
        read_body(TEXT, body)


def test_an_endpoint_that_is_none() -> None:
    with pytest.raises(ParameterInvalid, match="/v1/completions"):
        read_body("/v1/embeddings", {})


def a_result(**named: Any) -> Result:
    def token(text: str, logprob: float) -> TokenLogprob:
        return TokenLogprob(token_id=1, token=text, logprob=logprob)

    output = Output(
        index=0,
        text="aé",
        finish_reason="repetition",
        logprobs=((token("a", -2.0), token("b", -0.1)), (token("\ufffd", 0.0),)),
    )
    usage = Usage(prompt_tokens=1, completion_tokens=2, total_tokens=3)
    return Result(**({"id": "x", "status": "succeeded", "outputs": (output,), "usage": usage} | named))


def test_an_answer_has_its_logprobs_the_likeliest_first() -> None:
    answer = as_answer(CHAT, a_result(), model="m", created=5, top_logprobs=1).model_dump()
    assert (answer["id"], answer["created"], answer["choices"][0]["finish_reason"]) == ("chatcmpl-x", 5, "length")
    first, second = answer["choices"][0]["logprobs"]["content"]
    assert (first["token"], first["bytes"], [one["token"] for one in first["top_logprobs"]]) == ("a", [97], ["b"])
    assert second["bytes"] is None
    text = as_answer(TEXT, a_result(), model="m", created=5).model_dump()
    assert text["choices"][0]["logprobs"]["top_logprobs"][0] == {"b": -0.1, "a": -2.0}


def test_a_result_without_usage_has_an_answer_all_the_same() -> None:
    assert as_answer(TEXT, a_result(usage=None), model="m", created=5).usage.total_tokens == 0
    chunks = list(as_chunks(TEXT, a_result(), model="m", created=5, include_usage=True))
    assert [len(chunk.choices) for chunk in chunks] == [1, 0]


@pytest.mark.parametrize(
    ("error", "status", "retry_after_s"),
    [
        (RequestInvalid("a"), 400, None),
        (QueueFull("q", depth=5, limit=5, expected_wait_s=2.1), 429, 3),
        (QueueFull("q", depth=5, limit=5, expected_wait_s=None), 429, 5),
        (QueueFull("q", depth=5, limit=5, expected_wait_s=9e9), 429, 600),
        (DeadlineUnmeetable("a", left_s=1, needed_s=3), 429, 2),
        (DeadlineUnmeetable("a", left_s=-1, needed_s=3), 400, None),
        (ResultTimeout("a"), 504, None),
        (BusloadUnavailable("a"), 503, 5),
        (RequestUnknown("a"), 404, None),
        (ResultExpired("a"), 410, None),
        (BusloadError("a"), 500, None),
    ],
)
def test_an_errors_status(error: BusloadError, status: int, retry_after_s: int | None) -> None:
    refusal = as_refusal(error)
    assert (refusal.status, refusal.retry_after_s) == (status, retry_after_s)
    assert refusal.body.model_dump()["error"]["message"] == str(error)


@pytest.mark.parametrize(
    ("status", "code", "http"),
    [
        ("failed", "invalid_request", 400),
        ("failed", "prompt_too_long", 400),
        ("failed", "too_heavy", 400),
        ("failed", "poison", 500),
        ("failed", "engine_error", 500),
        ("cancelled", "cancelled", 499),
        ("expired", "expired", 504),
    ],
)
def test_a_failed_results_status(status: str, code: str, http: int) -> None:
    refusal = failed(Result(id="a", status=status, error=ResultError(code=code, message="m")))  # type: ignore[arg-type]
    assert refusal is not None
    assert refusal.status == http
    assert failed(a_result()) is None
    assert failed(Result(id="a", status="failed")) is not None
