"""Request and Result: what is accepted, what is refused and how that is said, and that nothing changes on the way."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from busload.encoding import as_request, checked_id, encode
from busload_shared.errors import RequestInvalid
from busload_shared.request import MAX_PAYLOAD_BYTES, ChatMessage, Request, parse_request
from busload_shared.result import (
    BatchInfo,
    Output,
    Proof,
    Result,
    ResultError,
    Timing,
    TokenLogprob,
    Usage,
)

REFUSED: list[tuple[str, Any]] = [
    ("max_tokens", 64.0),
    ("max_tokens", True),
    ("max_tokens", "64"),
    ("max_tokens", 0),
    ("max_tokens", 10**30),
    ("min_tokens", -1),
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", "hot"),
    ("temperature", True),
    ("temperature", -0.1),
    ("top_p", 0),
    ("top_p", 1.01),
    ("top_k", 1.5),
    ("seed", 2**63),
    ("seed", 1.0),
    ("stop", "a"),
    ("stop", [""]),
    ("stop", [1]),
    ("stop_token_ids", [True]),
    ("presence_penalty", 3),
    ("frequency_penalty", -3),
    ("repetition_penalty", 0),
    ("n", 0),
    ("n", 17),
    ("ignore_eos", 1),
    ("json_schema", "{}"),
    ("regex", ""),
    ("choice", []),
    ("grammar", 5),
    ("priority", 101),
    ("priority", 0.5),
    ("deadline", 0),
    ("ttl_s", -1),
    ("route", ""),
    ("return_token_ids", "yes"),
    ("created_at", "now"),
    ("metadata", [1]),
    ("metadata", {"a": math.nan}),
    ("v", 2),
    ("prompt", ""),
    ("prompt", 7),
    ("prompt", "\ud800"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_a_wrong_value_is_refused_and_the_field_named(name: str, value: Any) -> None:
    with pytest.raises(RequestInvalid, match=rf"\b{name}\b"):
        as_request(None, {"id": "a", "prompt": "p", name: value})


@pytest.mark.parametrize(("name", "value"), [*REFUSED[:-1], ("created_at", -math.inf)])
def test_the_same_is_refused_in_json(name: str, value: Any) -> None:
    payload = json.dumps({"id": "a", "prompt": "p", name: value}).encode()
    with pytest.raises(RequestInvalid, match=rf"\b{name}\b"):
        parse_request(payload)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(RequestInvalid, match=r"max_token:"):
        as_request(None, {"prompt": "p", "max_token": 5})


@pytest.mark.parametrize("prompts", [{}, {"prompt": "p", "prompt_token_ids": [1]}, {"prompt": "p", "messages": []}])
def test_exactly_one_prompt_is_given(prompts: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match=r"exactly one of prompt|messages"):
        as_request(None, {"id": "a", **prompts})


@pytest.mark.parametrize(
    "fields",
    [
        {"min_tokens": 9, "max_tokens": 8},
        {"n": 2, "temperature": 0.0},
        {"regex": "a", "choice": ["b"]},
        {"deadline": 2e9, "ttl_s": 1.0},
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestInvalid, match="|".join(fields)):
        as_request(None, {"prompt": "p", **fields})


@pytest.mark.parametrize("name", ["a", "é", "日本", "a:b", "{a}", "a*b", "%s", "x" * 256, "\U0001f68c"])
def test_ids_that_are_fine(name: str) -> None:
    assert parse_request(encode(as_request(None, {"id": name, "prompt": "p"}))).id == name
    assert checked_id(name) == name


@pytest.mark.parametrize(
    "name", ["", "a b", "a\n", "\n", "a\tb", "a\x00", "\x7f", "a\u2028b", "\xa0", "x" * 257, "\ud800", 5]
)
def test_ids_that_are_refused(name: Any) -> None:
    with pytest.raises(RequestInvalid, match="id"):
        as_request(None, {"id": name, "prompt": "p"})
    with pytest.raises(RequestInvalid, match="id"):
        checked_id(name)


def test_a_missing_id_becomes_a_random_one() -> None:
    names = {as_request({"prompt": "p"}, {}).id for _ in range(100)}
    assert len(names) == 100
    assert all(len(name) == 32 for name in names)


def test_lists_and_dicts_are_fine_where_json_has_them() -> None:
    request = as_request(None, {"messages": [{"role": "user", "content": "hi"}], "stop": ["\n"]})
    assert request.messages == (ChatMessage(role="user", content="hi"),)
    assert request.stop == ("\n",)
    mixed = as_request(None, {"messages": [ChatMessage(role="user", content="hi")], "stop": ["\n"], "temperature": 1})
    assert mixed.messages == request.messages


@pytest.mark.parametrize(
    "metadata",
    [{"a": "\ud800"}, {"\ud800": 1}, {"a": b"x"}, {"a": object()}, {1: 2, "b": [b"x"]}],
    ids=["surrogate", "surrogate key", "bytes", "object", "bytes below"],
)
def test_what_json_cannot_hold_is_refused(metadata: Any) -> None:
    with pytest.raises(RequestInvalid):
        encode(as_request(None, {"prompt": "p", "metadata": metadata}))


@pytest.mark.parametrize("depth", [300, 5_000])
def test_what_no_worker_could_read_back_is_refused(depth: int) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    with pytest.raises(RequestInvalid):
        encode(as_request(None, {"prompt": "p", "metadata": {"a": nested}}))


def test_deep_json_is_refused_not_a_crash() -> None:
    payload = b'{"id":"a","prompt":"p","metadata":{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}}"
    with pytest.raises(RequestInvalid):
        parse_request(payload)


@pytest.mark.parametrize("payload", [b"", b"\x00", b"null", b"[]", b"{", b'{"id":"a","prompt":"\xff"}', b"1" * 5_000])
def test_bytes_that_are_no_request_are_refused(payload: bytes) -> None:
    with pytest.raises(RequestInvalid):
        parse_request(payload)


def test_a_payload_over_the_limit_is_refused_with_both_numbers() -> None:
    largest = encode(as_request(None, {"id": "a", "prompt": "x" * (MAX_PAYLOAD_BYTES - 22)}))
    assert len(largest) == MAX_PAYLOAD_BYTES
    parse_request(largest)
    with pytest.raises(RequestInvalid, match=f"{MAX_PAYLOAD_BYTES + 1} bytes.*{MAX_PAYLOAD_BYTES}"):
        encode(as_request(None, {"id": "a", "prompt": "x" * (MAX_PAYLOAD_BYTES - 21)}))
    with pytest.raises(RequestInvalid, match=str(MAX_PAYLOAD_BYTES)):
        parse_request(largest + b" ")


def test_a_reason_does_not_repeat_the_prompt() -> None:
    with pytest.raises(RequestInvalid) as refused:
        as_request(None, {"prompt": ["my secret"], "max_tokens": "my secret"})
    assert "secret" not in str(refused.value)


def test_a_huge_whole_number_in_metadata_survives() -> None:
    request = as_request(None, {"prompt": "p", "metadata": {"n": 10**40, "empty": []}})
    assert parse_request(encode(request)).metadata == {"n": 10**40, "empty": []}


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBER | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TOKENS = st.lists(st.integers(0, 200_000), min_size=1, max_size=5).map(tuple)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "max_tokens": st.integers(10, 1_000_000),
    "min_tokens": st.integers(0, 10),
    "temperature": st.floats(0, 100),
    "top_p": st.floats(0, 1, exclude_min=True),
    "top_k": st.integers(-1, 1_000_000),
    "min_p": st.floats(0, 1),
    "seed": st.none() | st.integers(-(2**63), 2**63 - 1),
    "stop": st.lists(TEXT, max_size=3).map(tuple),
    "stop_token_ids": TOKENS,
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0, 10, exclude_min=True),
    "logprobs": st.none() | st.integers(0, 20),
    "ignore_eos": st.booleans(),
    "json_schema": st.none() | st.dictionaries(TEXT, JSON, max_size=3),
    "priority": st.integers(-100, 100),
    "ttl_s": st.none() | st.floats(0, 31_536_000, exclude_min=True),
    "route": st.none() | TEXT,
    "return_token_ids": st.booleans(),
    "created_at": st.none() | NUMBER,
    "metadata": st.none() | st.dictionaries(TEXT, JSON, max_size=3),
}
CHAT = st.builds(
    ChatMessage, role=TEXT, content=st.text(st.characters(codec="utf-8"), max_size=9), name=st.none() | TEXT
)
PROMPTS = st.one_of(
    st.fixed_dictionaries({"prompt": TEXT}),
    st.fixed_dictionaries({"prompt_token_ids": TOKENS}),
    st.fixed_dictionaries({"messages": st.lists(CHAT, min_size=1, max_size=3).map(tuple)}),
)

PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SCHEMA = Draft202012Validator(Request.model_json_schema())


@PATIENT
@given(PROMPTS, st.fixed_dictionaries({}, optional=OPTIONAL))
def test_a_request_comes_back_as_it_went(prompt: dict[str, Any], fields: dict[str, Any]) -> None:
    request = Request(id="a", **prompt, **fields)
    payload = encode(request)
    assert parse_request(payload) == request
    assert SCHEMA.is_valid(json.loads(payload))


OUTPUT = st.builds(
    Output,
    index=st.integers(0, 15),
    text=st.text(st.characters(codec="utf-8"), max_size=20),
    finish_reason=st.sampled_from(["stop", "length", "abort", "error"]),
    stop_reason=st.none() | TEXT | st.integers(0, 9),
    token_ids=st.none() | TOKENS,
    logprobs=st.none()
    | st.lists(
        st.builds(TokenLogprob, token_id=st.integers(0, 9), token=TEXT, logprob=NUMBER).map(lambda one: (one,)),
        max_size=2,
    ).map(tuple),
)
RESULT = st.builds(
    Result,
    id=st.just("a"),
    status=st.sampled_from(["succeeded", "failed", "cancelled", "expired"]),
    outputs=st.lists(OUTPUT, max_size=2).map(tuple),
    usage=st.none() | st.builds(Usage),
    error=st.none() | st.builds(ResultError, code=st.just("poison"), message=TEXT),
    batch=st.none() | st.builds(BatchInfo, id=TEXT, trigger=st.sampled_from(["full", "timeout", "drain", "retry"])),
    timing=st.none() | st.builds(Timing, **dict.fromkeys(("enqueued_ms", "finished_ms", "waited_ms"), NUMBER)),
    metadata=st.none() | st.dictionaries(TEXT, JSON, max_size=3),
)


@PATIENT
@given(RESULT)
def test_a_result_comes_back_as_it_went(result: Result) -> None:
    assert Result.model_validate_json(result.model_dump_json()) == result
    assert Result.model_validate_json(result.model_dump_json(exclude_defaults=True)) == result


def test_messages_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Request(id="a", prompt="p").prompt = "q"  # type: ignore[misc]


@pytest.mark.parametrize("model", [Request, Result])
def test_there_is_a_json_schema(model: type[Request] | type[Result]) -> None:
    schema = model.model_json_schema()
    Draft202012Validator.check_schema(schema)
    assert (schema.get("additionalProperties") is False) == (model is Request), "a result may grow"
    assert set(model.model_fields) == set(schema["properties"])


def test_the_proof_tells_whether_the_batch_ran_as_one() -> None:
    assert Proof(spread_ms=0.0, preemptions=0).holds
    assert not Proof(spread_ms=0.1, preemptions=0).holds
    assert not Proof(spread_ms=0.0, preemptions=1).holds
    assert not Proof(spread_ms=0.0, preemptions=0, gap_ms=-0.1).holds
