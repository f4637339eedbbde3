"""From what was typed, and from files and stdin, to fields of requests and ids."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from busload_shared.errors import RequestInvalid

from .output import interruptible

STDIN = "-"
_JSON_FIELDS = ("json_schema", "metadata")
_FILE_FIELDS = (*_JSON_FIELDS, "grammar")


def fields_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given as options. Raises RequestInvalid for JSON or a file that cannot be read."""
    given = {name: value for name, value in options.items() if value is not None and value is not False and value != []}
    for name in _FILE_FIELDS:
        if str(given.get(name, "")).startswith("@"):
            given[name] = text_of(given[name][1:])
    for name in _JSON_FIELDS:
        if name in given:
            given[name] = _json(given[name], f"--{name.replace('_', '-')}")
    return given


def prompt_fields(prompt: str | None, *, chat: bool, system: str | None) -> dict[str, Any]:
    """The prompt as it is, or as a user's turn of a chat."""
    if prompt == STDIN:
        prompt = text_of(STDIN)
    if not chat and system is None:
        return {} if prompt is None else {"prompt": prompt}
    turns = [("system", system), ("user", prompt)]
    return {"messages": [{"role": role, "content": text} for role, text in turns if text is not None]}


def requests_in(path: str) -> list[dict[str, Any]]:
    """Requests of a file: one JSON object, a list of them, or one on each line. Raises RequestInvalid."""
    text = text_of(path)
    try:
        whole = json.loads(text)
    except ValueError:
        lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        whole = [_json(line, f"{path}, line {number}") for number, line in lines]
    found = whole if isinstance(whole, list) else [whole]
    if not found or not all(isinstance(request, dict) for request in found):
        raise RequestInvalid(f"{path}: give a request as a JSON object, or one on each line")
    return found


def ids_in(words: Iterable[str]) -> list[str]:
    """The ids, each once; `-` stands for those on stdin, separated by white space."""
    ids: list[str] = []
    for word in words:
        ids += text_of(STDIN).split() if word == STDIN else [word]
    return list(dict.fromkeys(ids))


def text_of(path: str) -> str:
    """What is in the file, or on stdin for `-`. Raises RequestInvalid."""
    try:
        if path != STDIN:
            return Path(path).read_text(encoding="utf-8")
        with interruptible():
            return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        what = "it is no UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise RequestInvalid(f"cannot read {path}: {what}") from None


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestInvalid(f"{where} is no JSON: {error}") from None
