"""What a hostile or careless producer may write: Hypothesis strategies for requests, results, elements and near misses.

requests()        fields of a valid request
near_requests()   (JSON, field, canary): a valid request with one field broken, and a text nobody may repeat
results()         a valid Result
elements()        (bytes, payload): a payload raw, or under a header that scripts accept
payloads()        bytes of any kind: noise, broken JSON, other JSON, near misses, valid requests
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

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

CANARY = "the-secret-of-the-prompt"

LINE = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
ANY_LINE = st.text(st.characters(codec="utf-8"), max_size=30)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | NUMBER | ANY_LINE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_LINE, inner, max_size=4),
    max_leaves=12,
)
OBJECT = st.dictionaries(ANY_LINE.filter(lambda name: name != "$ref"), JSON, max_size=4)
SPECIAL = st.sampled_from(
    ["<|im_start|>system\n", "<|im_end|>", "<|endoftext|>", "{{ 7 * 7 }}", "\x00", "\r\n", "\u202e"]
)
TEXT = LINE | SPECIAL
TOKENS = st.lists(st.integers(0, 200_000), min_size=1, max_size=6)
IDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs", "Zl", "Zp")), min_size=1, max_size=256
).filter(lambda name: not any(character.isspace() for character in name))

PROMPTS = st.one_of(
    st.fixed_dictionaries({"prompt": TEXT}),
    st.fixed_dictionaries({"prompt_token_ids": TOKENS}),
    st.fixed_dictionaries(
        {
            "messages": st.lists(
                st.fixed_dictionaries({"role": TEXT, "content": ANY_LINE | SPECIAL}, optional={"name": TEXT}),
                min_size=1,
                max_size=3,
            )
        }
    ),
)
SHAPES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"json_schema": OBJECT}),
    st.fixed_dictionaries({"regex": LINE}),
    st.fixed_dictionaries({"choice": st.lists(TEXT, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"grammar": LINE}),
)
ENDS = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"deadline": st.floats(1e-3, 1e300)}),
    st.fixed_dictionaries({"ttl_s": st.floats(1e-3, 31_536_000)}),
)
TRACEPARENT = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=60)
KNOBS: dict[str, st.SearchStrategy[Any]] = {
    "v": st.just(1),
    "max_tokens": st.integers(10, 1_000_000),
    "min_tokens": st.integers(0, 10),
    "temperature": st.floats(0.01, 100),
    "top_p": st.floats(0, 1, exclude_min=True),
    "top_k": st.integers(-1, 1_000_000),
    "min_p": st.floats(0, 1),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "stop": st.lists(TEXT, max_size=4),
    "stop_token_ids": TOKENS,
    "presence_penalty": st.floats(-2, 2),
    "frequency_penalty": st.floats(-2, 2),
    "repetition_penalty": st.floats(0, 10, exclude_min=True),
    "n": st.integers(1, 16),
    "logprobs": st.integers(0, 20),
    "ignore_eos": st.booleans(),
    "priority": st.integers(-100, 100),
    "route": TEXT,
    "return_token_ids": st.booleans(),
    "created_at": NUMBER,
    "metadata": OBJECT,
    "trace": st.fixed_dictionaries({"traceparent": TRACEPARENT}, optional={"tracestate": TRACEPARENT}),
}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """The fields of a request that a worker takes, its id among them."""
    some = draw(st.fixed_dictionaries({}, optional=KNOBS))
    parts = [draw(PROMPTS), some, draw(SHAPES), draw(ENDS), {"id": draw(IDS)}]
    return {name: value for part in parts for name, value in part.items()}


LONG = "x" * 70_000
WRONG: dict[str, list[Any]] = {
    "v": [2, "1", None, 1.5],
    "id": ["", " ", "a b", "a\n", "\x00", "x" * 257, LONG, 5, None, [], {}, "a\u2028b", "\x7f"],
    "prompt": ["", 5, [CANARY], {CANARY: 1}, True],
    "prompt_token_ids": [[], [-1], ["1"], [1.0], [True], [None], "1", {}, [-1] * 50_000],
    "messages": [[], [{}], [CANARY], {}, CANARY, [{"role": "", "content": CANARY}], [{"role": "user"}],
                 [{"role": "user", "content": None}], [{"role": "user", "content": CANARY, "url": CANARY}],
                 [{"role": LONG, "content": ""}], [{"role": "user", "content": [CANARY]}], [{"r": 1}] * 20_000],
    "max_tokens": [0, -1, 1_000_001, 10**400, 1.5, "8", True, None, [], {}],
    "min_tokens": [-1, 10**400, "0", False],
    "temperature": [-0.1, 101, 10**400, "1", True, [], {}],
    "top_p": [0, 1.1, -1, "1", True],
    "top_k": [-2, 1_000_001, 0.5, "1"],
    "min_p": [-0.1, 1.1, "0"],
    "seed": [2**63, -(2**63) - 1, 10**400, 1.0, "7", True],
    "stop": ["end", [""], [5], [None], [LONG], ["a"] * 65, [""] * 100_000, {}],
    "stop_token_ids": [[-1], ["1"], [1] * 257, [1.5], 5, [-1] * 100_000],
    "presence_penalty": [2.1, -2.1, "0", True],
    "frequency_penalty": [2.1, -2.1, "0", True],
    "repetition_penalty": [0, 10.1, "1", True],
    "n": [0, 17, 1000, 10**400, 1.0, "1", True],
    "logprobs": [-1, 21, 10**6, 1.0, "1", True],
    "ignore_eos": [1, "yes", None, []],
    "json_schema": [CANARY, [CANARY], 5, True, {"$ref": "http://127.0.0.1:1/x"}, {"a": [{"$ref": "file:///etc/x"}]}],
    "regex": ["", 5, ["a"], "a" * 4097, {}],
    "choice": [[], "a", [""], [5], ["a"] * 1025, [""] * 100_000, {}],
    "grammar": ["", 5, ["a"], "a" * 65_537],
    "priority": [101, -101, 0.5, "1", True, 10**400],
    "deadline": [0, -1, "soon", True, []],
    "ttl_s": [0, -1, 31_536_001, "60", True],
    "route": ["", "x" * 129, 5, []],
    "return_token_ids": [1, "yes", None],
    "created_at": ["now", True, []],
    "metadata": [CANARY, [CANARY], 5, True],
    "trace": [CANARY, {}, {"traceparent": ""}, {"traceparent": CANARY * 20}, {"traceparent": "\n"}],
}  # fmt: skip
"""For each field of a request values that it refuses. `None` stands for absent where a field may be absent."""


def broken(fields: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """The same request with one field broken and a prompt that nobody may repeat; fields that would clash with the
    broken one are left out."""
    prompts = {"prompt", "prompt_token_ids", "messages"}
    shapes = {"json_schema", "regex", "choice", "grammar"}
    clash = next((group for group in (prompts, shapes, {"deadline", "ttl_s"}) if name in group), frozenset({name}))
    kept = {key: kept for key, kept in fields.items() if key not in clash}
    if name not in prompts:
        kept = {key: value for key, value in kept.items() if key not in prompts} | {"prompt": CANARY}
    return kept | {name: value}


@st.composite
def near_requests(draw: st.DrawFn) -> tuple[bytes, str]:
    """JSON of a request with one field broken, and that field's name."""
    name = draw(st.sampled_from(sorted(WRONG)) | st.just("an_unknown_field"))
    value = draw(JSON) if name == "an_unknown_field" else draw(st.sampled_from(WRONG[name]))
    return json.dumps(broken(draw(requests()), name, value)).encode(), name


def payloads() -> st.SearchStrategy[bytes]:
    """Bytes of any kind."""
    valid = requests().map(lambda fields: json.dumps(fields, ensure_ascii=False).encode())
    return st.one_of(
        st.binary(max_size=200),
        JSON.map(lambda value: json.dumps(value).encode()),
        valid,
        near_requests().map(lambda near: near[0]),
        st.builds(_spoilt, valid, st.integers(0, 400), st.binary(max_size=4), st.integers(0, 3)),
    )


def _spoilt(payload: bytes, at: int, noise: bytes, cut: int) -> bytes:
    return payload[:at] + noise + payload[at + cut :]


@st.composite
def elements(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """An element with a header that a script accepts, and its payload; forged ones too: any time, token and id."""
    payload = draw(payloads())
    arrival = draw(st.integers(0, 10**15)) + draw(st.sampled_from([0.0, 0.001, 0.999]))
    attempts, lone = draw(st.integers(0, 999_999_999)), draw(st.integers(0, 999_999_999))
    word = st.binary(max_size=40).map(lambda text: bytes(byte for byte in text if byte not in b" \t\n\v\f\r"))
    header = b"@%.3f %d %d %b %b " % (arrival, attempts, lone, draw(word), draw(word | IDS.map(str.encode)))
    return header + payload, payload


def results() -> st.SearchStrategy[Result]:
    """A Result that a worker may write."""
    logprob = st.builds(TokenLogprob, token_id=st.integers(0, 9), token=ANY_LINE, logprob=NUMBER, rank=st.none())
    output = st.builds(
        Output,
        index=st.integers(0, 15),
        text=ANY_LINE | SPECIAL,
        finish_reason=st.sampled_from(["stop", "length", "abort", "error"]),
        stop_reason=st.none() | LINE | st.integers(0, 9),
        token_ids=st.none() | TOKENS.map(tuple),
        logprobs=st.none() | st.lists(st.tuples(logprob), max_size=2).map(tuple),
    )
    proof = st.none() | st.builds(Proof, spread_ms=NUMBER, preemptions=st.integers(0, 9), gap_ms=st.none() | NUMBER)
    return st.builds(
        Result,
        id=IDS,
        status=st.sampled_from(["succeeded", "failed", "cancelled", "expired"]),
        outputs=st.lists(output, max_size=2).map(tuple),
        usage=st.none() | st.builds(Usage),
        error=st.none() | st.builds(ResultError, code=st.just("poison"), message=LINE),
        batch=st.none() | st.builds(BatchInfo, id=LINE, trigger=st.sampled_from(["full", "timeout", "drain", "retry"])),
        timing=st.none()
        | st.builds(Timing, **dict.fromkeys(("enqueued_ms", "finished_ms", "waited_ms"), NUMBER), proof=proof),
        worker=st.none() | LINE,
        attempts=st.integers(0, 10**9),
        metadata=st.none() | OBJECT,
    )
