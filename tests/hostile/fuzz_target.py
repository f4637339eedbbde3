"""What a fuzzer feeds: every reader of strangers' bytes, one after the other."""

from __future__ import annotations

import contextlib
import math
import time

from pydantic import ValidationError

from busload_shared.element import Element
from busload_shared.errors import RequestInvalid
from busload_shared.inbox import Inbox, LookAgain, Mail
from busload_shared.request import Request, parse_request
from busload_shared.result import Result
from busload_worker.admission import readable_id

SLOWEST_S = 5.0
"""No input of a fuzzer's size may take longer, on the slowest machine: 4 KB of JSON take some microseconds."""


def _an_inbox() -> Inbox:
    inbox = Inbox.__new__(Inbox)
    inbox._reply, inbox._done, inbox._listening = b"reply", b"done:", True
    return inbox


_INBOX = _an_inbox()


def try_all(data: bytes) -> None:
    """Raises AssertionError, or whatever a door should not have let out."""
    began = time.process_time()
    element = Element.parse(data, latest_ms=1e12)
    assert element.arrival_ms <= 1e12
    assert not math.isnan(element.arrival_ms)
    assert data.endswith(element.payload)
    for payload in (data, element.payload):
        _try_payload(payload)
    for reply in ([b"message", b"reply", data], [b"message", b"done:" + data, b"x"], [b"subscribe", data, b"1"]):
        for event in _INBOX._read(reply):
            assert isinstance(event, Mail | LookAgain)
    with contextlib.suppress(ValidationError):
        result = Result.model_validate_json(data)
        assert Result.model_validate_json(result.model_dump_json()) == result
    assert time.process_time() - began < SLOWEST_S


def _try_payload(payload: bytes) -> None:
    name = readable_id(payload)
    assert len(name) <= 256
    name.encode()
    reason = ""
    try:
        request = parse_request(payload)
    except RequestInvalid as refused:
        reason = str(refused)
    if reason:
        assert len(reason) < 1000, "it fits into a result"
        return
    assert request.id == name
    assert Request.model_validate_json(request.model_dump_json()) == request
