"""A megabyte of JSON made to be slow, at the doors that read strangers' JSON in a loop that others wait for."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic_core import from_json
from tests.hostile.junk import MEGABYTE, UNKNOWN_FIELDS
from tests.hostile.test_models import LONGEST_REASON, read

from busload.bulk import reading
from busload.openai_api.bodies import ENDPOINTS, read_body
from busload.openai_api.invalid import ParameterInvalid
from busload_shared.crowding import MAX_CONTAINERS, crowded
from busload_shared.errors import RequestInvalid
from busload_shared.request import MAX_JSON_VALUES, Request, parse_request
from busload_worker.admission import readable_id

HEAVY = {
    "unknown fields": b'{"id":"a","prompt":"p",' + UNKNOWN_FIELDS + b"}",
    "wrong stops": b'{"id":"a","prompt":"p","stop":[' + b'"",' * 300_000 + b'""]}',
    "wrong tokens": b'{"id":"a","prompt_token_ids":[' + b"-1," * 300_000 + b"-1]}",
    "wrong messages": b'{"id":"a","messages":[' + b'{"r":1},' * 110_000 + b"{}]}",
    "wrong choices": b'{"id":"a","prompt":"p","choice":[' + b'"",' * 300_000 + b'""]}',
    "digits": b'{"id":"a","prompt":"p","max_tokens":' + b"1" * MEGABYTE + b"}",
    "digits in metadata": b'{"id":"a","prompt":"p","metadata":{"a":' + b"1" * MEGABYTE + b"}}",
    "many lists": b'{"id":"a","prompt":"p","metadata":{"a":[' + b"[]," * 300_000 + b"1]}}",
    "many objects": b'{"id":"a","prompt":"p","metadata":{"a":[' + b"{}," * 300_000 + b"1]}}",
    "one key again and again": b'{"id":"a","prompt":"p",' + b'"max_tokens":1,' * 65_000 + b'"n":1}',
    "escapes": b'{"id":"a","prompt":"' + b"\\u0041" * 160_000 + b'"}',
    "deep": b"[" * 500_000 + b"]" * 500_000,
    "deep enough, many times": b'{"id":"a","prompt":"p","json_schema":{"a":[' + (b"[" * 150 + b"]" * 150 + b",") * 3000
    + b"1]}}",
    "an id of a megabyte": b'{"id":"' + b"x" * MEGABYTE + b'","prompt":"p"}',
    "white space": b" " * MEGABYTE,
}  # fmt: skip

SHARE = 10
"""Times what a parser alone needs for the longest of them. The worst takes three; one was seventeen."""


def seconds(work: Callable[[], object]) -> float:
    """CPU time, and nothing of it for what the tests before have left behind."""
    gc.collect()
    gc.freeze()
    began = time.process_time()
    work()
    spent = time.process_time() - began
    gc.unfreeze()
    return spent


@pytest.fixture(scope="module")
def parsing_s() -> float:
    """What this machine needs to make the lists of a megabyte of them, when nobody collects meanwhile."""
    gc.disable()
    spent = min(seconds(lambda: from_json(HEAVY["deep enough, many times"])) for _ in range(3))
    gc.enable()
    return spent


@pytest.mark.parametrize("what", HEAVY)
def test_a_megabyte_costs_a_worker_no_more_than_its_share(what: str, parsing_s: float) -> None:
    """A batch is read row by row in the loop that renews its lease: none may take seconds."""
    payload = HEAVY[what]
    assert len(payload) < 1_048_576

    def look() -> None:
        read(payload)
        readable_id(payload)

    assert seconds(look) < SHARE * parsing_s
    assert len(read(payload)[1]) < LONGEST_REASON


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize("what", HEAVY)
def test_a_megabyte_costs_the_gateway_no_more_than_its_share(what: str, endpoint: str, parsing_s: float) -> None:
    """A gateway reads a body in the loop that serves its other callers."""

    def look() -> None:
        with suppress(ParameterInvalid):
            read_body(endpoint, HEAVY[what])

    assert seconds(look) < SHARE * parsing_s


@pytest.mark.parametrize("what", ["many lists", "many objects", "deep enough, many times"])
def test_a_line_of_a_file_is_not_parsed_for_them_either(what: str) -> None:
    """A gateway reads the lines of a batch in the same loop."""
    with pytest.raises(RequestInvalid, match="lists and objects"):
        reading._object(HEAVY[what])


@pytest.mark.parametrize("inside", ["[", "{", '\\"[', "\\\\"])
def test_brackets_in_a_text_are_no_lists(inside: str) -> None:
    prompt = inside * (MAX_CONTAINERS + 1)
    payload = b'{"id":"a","prompt":"' + prompt.encode() + b'"}'
    assert len(parse_request(payload).prompt or "") >= MAX_CONTAINERS


@pytest.mark.parametrize("one", [b"[]", b"{}", b'{"[":"\\"[{"}'])
def test_a_json_is_crowded_from_one_list_or_object_more_than_allowed(one: bytes) -> None:
    full = b"[" + (one + b",") * (MAX_CONTAINERS - 1) + b'"' + b"[" * MAX_CONTAINERS
    assert not crowded(full + b'"]'), "the last text is one, whatever is in it"
    assert not crowded(full), "also where it has no end"
    assert crowded(full.replace(b"[", b"[[]," + one + b",", 1))


def test_the_fullest_request_that_is_allowed_is_not_crowded() -> None:
    free: dict[str, Any] = {"a": [{} for _ in range(MAX_JSON_VALUES - 1)]}
    turns = [{"role": "user", "content": "x" * 20}] * 4096
    fields = {"id": "a", "messages": turns, "metadata": free, "json_schema": free, "stop": ["a"]}
    assert parse_request(json.dumps(fields).encode()).metadata == free


@pytest.mark.parametrize("what", ["wrong stops", "wrong tokens", "wrong messages", "wrong choices"])
def test_of_many_wrong_items_one_is_told_and_none_counted(what: str) -> None:
    """One error for each of 300,000 items would be a second's work."""
    with pytest.raises(ValidationError) as refused:
        Request.model_validate_json(HEAVY[what])
    assert refused.value.error_count() < 10
