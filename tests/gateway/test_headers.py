"""What the headers of a call say of its request."""

from __future__ import annotations

from typing import Any

from busload.gateway.access_log import Notes
from busload.gateway.completions import request_id, trace_of
from busload.gateway.exchange import Exchange
from busload.gateway.keys import ANONYMOUS, Key

ANYBODY = Key(name=ANONYMOUS, sha256="0" * 64)
SHOP = Key(name="shop", sha256="0" * 64)


async def nothing(*_: Any) -> Any:
    raise AssertionError("nothing is read or sent")


def a_call(**headers: str) -> Exchange:
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return Exchange({"path": "/", "headers": pairs}, nothing, nothing, Notes("POST", "/"))


def test_an_idempotency_key_is_the_id_and_a_callers_own() -> None:
    assert request_id(a_call(idempotency_key="order-7"), ANYBODY) == "order-7"
    assert request_id(a_call(idempotency_key="order-7", x_request_id="t"), SHOP) == "shop.order-7"


def test_an_x_request_id_begins_the_id_so_that_two_calls_of_a_trace_are_two_requests() -> None:
    call = a_call(x_request_id="trace 1\x80")
    first, second = request_id(call, SHOP), request_id(call, SHOP)
    assert first != second
    assert first.startswith("shop.trace-1-.")


def test_without_a_header_ids_are_random() -> None:
    assert request_id(a_call(), ANYBODY) != request_id(a_call(), ANYBODY)
    assert request_id(a_call(), SHOP).startswith("shop.")


def test_a_trace_goes_on_and_one_that_is_none_is_ignored() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    trace = trace_of(a_call(traceparent=parent, tracestate="a=b"))
    assert trace is not None
    assert (trace.traceparent, trace.tracestate) == (parent, "a=b")
    assert trace_of(a_call(traceparent="")) is None
    assert trace_of(a_call()) is None
