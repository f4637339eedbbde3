"""What is asked in a chaos run, and which answer is right. All follows from the id, so that every process knows it."""

from __future__ import annotations

import json
import random
from typing import Any
from zlib import crc32

from tests.chaos.options import LONGEST_TOKENS


def prompt_of(request_id: str) -> str:
    """Some 20 to 400 characters."""
    return (request_id + " ") * (1 + crc32(request_id.encode()) % 20)


def fields_of(request_id: str, fault: str | None = None) -> dict[str, Any]:
    """The request; with a fault it kills whoever runs it."""
    dice = random.Random(request_id)
    fields = {"id": request_id, "prompt": prompt_of(request_id), "max_tokens": dice.randint(4, LONGEST_TOKENS)}
    return fields | {"metadata": {"fake": fault}} if fault else fields


def raw(request_id: str, fault: str | None = None) -> bytes:
    """The request as a raw LPUSH has it."""
    return json.dumps(fields_of(request_id, fault)).encode()


def right_text(request_id: str) -> str:
    """How a right answer begins."""
    return f"echo:{request_id}:{crc32(prompt_of(request_id).encode()):08x}:0"


def fingerprint(result: dict[str, Any]) -> str:
    """Tells two answers to one request apart: no two runs have the same batch, place, and time."""
    batch, timing = result.get("batch") or {}, result.get("timing") or {}
    outputs = result.get("outputs") or [{}]
    text = crc32(str(outputs[0].get("text", "")).encode())
    words = (batch.get("id"), batch.get("position"), timing.get("finished_ms"), result.get("attempts"), text)
    return "|".join(map(str, words))
