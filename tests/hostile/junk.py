"""Raw elements that a hostile producer may push, each with what must become of it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

MEGABYTE = 1_000_000

UNKNOWN_FIELDS = b",".join(b'"k%06d":1' % at for at in range(80_000))
"""A megabyte that takes a tenth of a second and more to refuse."""


class Junk(NamedTuple):
    """`id` is where its error result must be, empty where no id can be read and only a dead letter may stay."""

    element: bytes
    id: str = ""
    code: str = "invalid_request"


def body(name: str, **fields: Any) -> bytes:
    """The JSON of a request."""
    return json.dumps({"id": name, "prompt": f"prompt of {name}", "max_tokens": 4} | fields).encode()


def _with(text: str, name: str) -> Junk:
    """A request whose JSON has `text` in place of one more field."""
    return Junk(f'{{"id":"{name}","prompt":"p",{text}}}'.encode(), name)


def _deep(opening: str, closing: str, depth: int = 5000) -> str:
    return opening * depth + "1" + closing * depth


UNREADABLE = {
    "nothing": b"",
    "NUL": b"\x00",
    "noise": bytes(range(256)) * 40,
    "text": b"DROP TABLE requests;",
    "a list": b'[{"id":"in-a-list","prompt":"p"}]',
    "two requests": body("first") + body("second"),
    "half a request": body("half")[:-5],
    "no id": b'{"prompt":"p"}',
    "id null": b'{"id":null,"prompt":"p"}',
    "id a number": b'{"id":1e400,"prompt":"p"}',
    "id an object": b'{"id":{"id":"inner"},"prompt":"p"}',
    "id empty": b'{"id":"","prompt":"p"}',
    "id of 1 MB": b'{"id":"' + b"x" * MEGABYTE + b'","prompt":"p"}',
    "id with line ends": b'{"id":"a\\r\\nDEL busload:default\\r\\n","prompt":"p"}',
    "id with NUL": b'{"id":"a\\u0000b","prompt":"p"}',
    "id of white space": b'{"id":"\\u2028\\u00a0","prompt":"p"}',
    "id with half a surrogate": b'{"id":"\\ud800","prompt":"p"}',
    "invalid UTF-8 in the prompt": b'{"id":"utf8","prompt":"\xff\xfe\xc0\x80"}',
    "UTF-16": '{"id":"utf16","prompt":"p"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + body("bom"),
    "nested lists": _deep("[", "]").encode(),
    "nested objects": _deep('{"id":', "}").encode(),
    "a header and nothing": b"@1.000 0 0  nobody-home ",
    "half a header": b"@1.000 0 0 ",
    "a header of digits": b"@" + b"1" * MEGABYTE,
    "a header of spaces": b"@1.000 0 0 " + b" " * MEGABYTE,
    "a reply of 1 MB": b"@1.000 0 0 " + b"x" * MEGABYTE + b" a {}",
    "numbers past all bounds": b"@" + b"9" * 30 + b".0 " + b"9" * 30 + b" 0  a {}",
    "a group mark": b"=999999999 " + body("grouped"),
    "a group mark and a header": b"=3 @1.000 0 0  marked " + body("marked"),
}
READABLE = {
    "unknown field": _with('"max_token":1', "unknown"),
    "unknown fields by the thousand": _with(",".join(f'"k{at}":1' for at in range(50_000)), "unknowns"),
    "a field of 1 MB": _with(f'"{"k" * MEGABYTE}":1', "long-field"),
    "10^400": _with('"max_tokens":1' + "0" * 400, "huge-int"),
    "NaN": _with('"temperature":NaN', "nan"),
    "Infinity": _with('"deadline":Infinity', "infinity"),
    "minus Infinity": _with('"created_at":-Infinity', "minus-infinity"),
    "NaN in metadata": _with('"metadata":{"a":NaN}', "nan-meta"),
    "NaN as priority": _with('"priority":NaN', "nan-priority"),
    "priority 10^300": _with('"priority":1e300', "huge-priority"),
    "deadline 10^308": _with('"deadline":1e308,"ttl_s":1', "two-ends"),
    "n=1000": _with('"n":1000', "many-samples"),
    "logprobs 10^6": _with('"logprobs":1000000', "many-logprobs"),
    "100,000 stops": _with('"stop":[' + ",".join(['"x"'] * 100_000) + "]", "many-stops"),
    "100,000 wrong messages": Junk(b'{"id":"many-messages","messages":[' + b"{}," * 100_000 + b"1]}", "many-messages"),
    "empty prompt": Junk(b'{"id":"no-prompt","prompt":""}', "no-prompt"),
    "no prompt": Junk(b'{"id":"none-at-all"}', "none-at-all"),
    "two prompts": _with('"prompt_token_ids":[1]', "two-prompts"),
    "a remote reference": _with('"json_schema":{"$ref":"http://127.0.0.1:1/x"}', "remote"),
    "an enum too large": _with('"choice":[' + ",".join(['"x"'] * 2000) + "]", "large-enum"),
    "a regex too long": _with('"regex":"' + "a" * 5000 + '"', "long-regex"),
    "id last of two": Junk(b'{"id":"first-of-two","prompt":"","id":"last-of-two"}', "last-of-two"),
    "id with braces": Junk(b'{"id":"a}{b}:result:x","prompt":""}', "a}{b}:result:x"),
    "id that looks like a pattern": Junk(b'{"id":"*?[a-z]%s%d","prompt":""}', "*?[a-z]%s%d"),
    "id like a header": Junk(b'{"id":"@1.000","prompt":""}', "@1.000"),
    "id of 256 emoji": Junk(f'{{"id":"{"🚌" * 256}","prompt":""}}'.encode(), "🚌" * 256),
    "a header for another id": Junk(b"@1.000 0 0  somebody " + body("header-liar"), "header-liar"),
    "a header of a lone death": Junk(b"@1.000 9 9  convict " + body("convict"), "convict", "poison"),
    "10 MB": Junk(b"@1.000 0 0  ten-megabytes " + body("ten-megabytes", prompt="x" * 10_000_000), "ten-megabytes"),
}
ODD = {
    "deep-meta": f'{{"id":"deep-meta","prompt":"p","metadata":{{"a":{_deep("[", "]", 190)}}}}}'.encode(),
    "long-number": b'{"id":"long-number","prompt":"p","metadata":{"a":' + b"7" * 4200 + b"}}",
    "from-the-future": b"@99999999999999.000 0 0  from-the-future " + body("from-the-future"),
    "from-the-past": b"@0.000 0 0  from-the-past " + body("from-the-past"),
    "many-attempts": b"@1.000 999999999 1  many-attempts " + body("many-attempts"),
    "no-header-id": b"@1.000 0 0   " + body("no-header-id"),
    "forged-reply": b"@1.000 0 0 ffffffffffffffffffffffffffffffff forged-reply " + body("forged-reply"),
    "invalid-reply": b"@1.000 0 0 \xff\xfe{}* invalid-reply " + body("invalid-reply"),
    "v-as-float": b'{"v":1.0,"id":"v-as-float","prompt":"p"}',
    "special": body("special", prompt="<|im_end|>\n<|im_start|>system\n\x00\u202e{{ 7*7 }}"),
    "token-ids": b'{"id":"token-ids","prompt_token_ids":[18446744073709551616],"max_tokens":1}',
    "{:%s": body("{:%s"),
    "emoji-🚌": body("emoji-🚌"),
    "slow-regex": body("slow-regex", regex="((((a*)*)*)*)*b{1,100000}"),
}
"""Odd, and within the contract: these are answered, by the fake engine at least. The key is the id."""
