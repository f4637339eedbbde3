"""Every parser at a door, against anything: what is right comes through unchanged, all else is refused in one way."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.hostile import fuzz_parser
from tests.hostile.strategies import (
    CANARY,
    IDS,
    JSON,
    WRONG,
    broken,
    elements,
    near_requests,
    payloads,
    requests,
    results,
)

from busload.encoding import as_request, checked_id, encode
from busload_shared.element import Element
from busload_shared.errors import RequestInvalid
from busload_shared.inbox import Inbox, LookAgain, Mail
from busload_shared.keys import Keys
from busload_shared.request import Request, parse_request
from busload_shared.result import Result
from busload_worker.admission import readable_id

PATIENT = settings(deadline=None, suppress_health_check=list(HealthCheck))
SHORT = settings(PATIENT, max_examples=60)
FEW = settings(PATIENT, max_examples=30)
LONGEST_REASON = 600


def read(payload: bytes) -> tuple[Request | None, str]:
    """The request, or why it is none. Whatever else is raised is a failure."""
    try:
        return parse_request(payload), ""
    except RequestInvalid as refused:
        return None, str(refused)


@SHORT
@given(requests(), st.booleans())
def test_a_valid_request_is_the_same_after_any_way_of_writing_it(fields: dict[str, Any], ascii_only: bool) -> None:
    payload = json.dumps(fields, ensure_ascii=ascii_only).encode()
    request = parse_request(payload)
    assert parse_request(encode(request)) == request
    assert as_request(None, dict(fields)) == request
    assert Request.model_validate_json(request.model_dump_json()) == request, "the way into the engine's process"
    assert readable_id(payload) == request.id


@SHORT
@given(results())
def test_a_valid_result_is_the_same_after_its_way(result: Result) -> None:
    for body in (result.model_dump_json(), result.model_dump_json(exclude_none=True)):
        assert Result.model_validate_json(body) == result


@SHORT
@given(near_requests())
def test_one_broken_field_is_refused_by_its_name_in_one_short_line(near: tuple[bytes, str]) -> None:
    payload, field = near
    with pytest.raises(RequestInvalid) as refused:
        parse_request(payload)
    said = str(refused.value)
    assert field in said
    assert CANARY not in said
    assert len(said) < LONGEST_REASON
    assert said.isprintable()


@pytest.mark.parametrize("field", WRONG)
def test_each_wrong_value_of_each_field_is_refused_by_its_name(field: str) -> None:
    plain = {"id": "a", "prompt": "p"}
    for value in WRONG[field]:
        payload = json.dumps(broken(plain, field, value)).encode()
        with pytest.raises(RequestInvalid, match=rf"\b{field}\b") as refused:
            parse_request(payload)
        said = str(refused.value)
        assert CANARY not in said
        assert len(said) < LONGEST_REASON
        assert said.isprintable()


def test_every_field_has_wrong_values() -> None:
    assert set(WRONG) == set(Request.model_fields)


@pytest.mark.parametrize("name", [CANARY * 1000, "a\nb", "\x1b[31m", "\u202e", "." * 500], ids=range(5))
def test_an_unknown_fields_name_is_cut_and_on_one_line(name: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        parse_request(json.dumps({"id": "a", "prompt": "p", name: 1}).encode())
    assert len(str(refused.value)) < LONGEST_REASON
    assert str(refused.value).isprintable()


@settings(PATIENT, max_examples=300)
@given(payloads())
def test_any_bytes_are_a_request_or_refused_and_nothing_else_is_raised(payload: bytes) -> None:
    readable_id(payload)
    request, said = read(payload)
    if request is None:
        assert 0 < len(said) < LONGEST_REASON
        assert said.isprintable()
    else:
        assert parse_request(encode(request)) == request


@SHORT
@given(st.dictionaries(st.sampled_from(sorted(Request.model_fields)) | st.text(max_size=5), JSON | st.binary()))
def test_any_fields_given_to_a_client_are_a_request_or_refused(fields: dict[str, Any]) -> None:
    with suppress(RequestInvalid):
        parse_request(encode(as_request(None, fields)))


@SHORT
@given(elements(), st.floats(0, 1e15))
def test_an_element_gives_its_payload_back_and_never_a_time_to_come(element: tuple[bytes, bytes], now: float) -> None:
    raw, payload = element
    parsed = Element.parse(raw, latest_ms=now)
    assert parsed.payload == payload
    assert parsed.arrival_ms <= now


@SHORT
@given(st.binary(max_size=100) | payloads(), st.floats(0, 1e15))
def test_anything_is_an_element(raw: bytes, now: float) -> None:
    parsed = Element.parse(raw, latest_ms=now)
    assert raw.endswith(parsed.payload)
    assert parsed.arrival_ms <= now


def an_inbox() -> Inbox:
    inbox = Inbox.__new__(Inbox)
    inbox._reply, inbox._done, inbox._listening = b"reply", b"done:", True
    return inbox


@SHORT
@given(st.lists(results() | JSON, max_size=4), st.binary(max_size=60))
def test_any_letter_on_a_reply_channel_is_mail_or_a_reason_to_look(items: list[Any], noise: bytes) -> None:
    inbox = an_inbox()
    parts = [item.model_dump(mode="json") if isinstance(item, Result) else item for item in items]
    for letter in (json.dumps(parts).encode(), json.dumps(parts).encode() + noise, noise):
        (event,) = inbox._read([b"message", b"reply", letter])
        assert isinstance(event, Mail | LookAgain)


@SHORT
@given(st.binary(max_size=80))
def test_any_channel_is_a_reason_to_look_at_most(name: bytes) -> None:
    for event in an_inbox()._read([b"message", b"done:" + name, b"succeeded"]):
        assert isinstance(event, LookAgain)


@SHORT
@given(IDS)
def test_every_id_stays_in_its_queues_slot_and_apart_from_others(name: str) -> None:
    assert checked_id(name) == name
    keys = Keys("busload:default")
    for key in (keys.result(name), keys.state(name), keys.cancel(name), keys.done(name)):
        assert key.startswith("{busload:default}:")
        assert key.endswith(":" + name)


def test_duplicate_keys_are_read_as_redis_reads_them_the_last_one_counts() -> None:
    """Lua's cjson takes the last as well: a header cannot name another id than the request."""
    payload = b'{"id":"a","id":"b","prompt":"p","prompt":"q"}'
    assert (parse_request(payload).id, parse_request(payload).prompt) == ("b", "q")
    assert readable_id(payload) == "b"


def test_the_fuzzer_runs_without_its_guide_and_ends_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert fuzz_parser.main(["--unguided", "--seconds", "0.5"]) == 0
    assert time.monotonic() - began < 60
    assert "inputs" in capsys.readouterr().out


def test_the_fuzzer_would_find_a_door_that_lets_something_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.hostile.fuzz_target.readable_id", lambda payload: payload.decode())
    with pytest.raises(UnicodeDecodeError):
        fuzz_parser.main(["--unguided", "--seconds", "0.5"])
