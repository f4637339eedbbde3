"""What the demo asks: questions a model of 135 million parameters can answer, and the user's own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from busload_shared.errors import RequestInvalid, SettingsInvalid
from busload_shared.request import ChatMessage, Request, parse_request

_OWN_MAX_TOKENS = 64

_QUESTIONS = (
    (8, "Name the capital of France."),
    (48, "Write a short paragraph about why the sea is salty."),
    (12, "How many days are there in a week?"),
    (32, "What is photosynthesis? Answer in one sentence."),
    (40, "What is the chemical symbol for gold?"),
    (24, "Summarize in one sentence: The bus was late because the road was flooded after a night of heavy rain."),
    (32, "List five fruits."),
    (16, "Complete the proverb: The early bird catches the"),
    (8, "What is the capital of Japan?"),
    (80, "Write a short story about a bus driver who finds a lost dog."),
    (32, "What is a volcano? Answer in one sentence."),
    (16, "What is the plural of 'child'?"),
    (48, "What is the main gas in the air we breathe?"),
    (32, "What is a queue? Answer in one sentence."),
    (24, "How do birds fly? Answer in two sentences."),
    (48, "Describe a walk through a forest in autumn in three sentences."),
    (12, "What is 2 + 2?"),
    (32, "Summarize in one sentence: Tea comes from China, and today it is drunk all over the world, hot or cold."),
    (48, "Give three tips for saving water at home."),
    (32, "What is the largest ocean on Earth?"),
    (8, "What is the capital of Germany?"),
    (32, "What does a computer's memory do? Answer in one sentence."),
    (24, "What is an island? Answer in one sentence."),
    (64, "Explain how rain forms, step by step."),
    (24, "Explain to a child in two sentences why we brush our teeth."),
    (48, "List the four seasons."),
    (24, "Give one reason why sleep is important. Answer in one sentence."),
    (32, "Name the three primary colors."),
    (24, "Summarize in one sentence: Maria planted beans in spring, watered them each day, and ate them in summer."),
    (40, "What is the chemical formula of water?"),
)
"""Tokens at most, and the question."""


def demo_requests() -> list[Request]:
    """The demo's own questions, short and long mixed; the same each time."""
    return [_chat(number, text, max_tokens) for number, (max_tokens, text) in enumerate(_QUESTIONS, start=1)]


def read_requests(file: Path) -> list[Request]:
    """Read the user's requests: a line each, either a prompt or a JSON object of a request's fields.

    A missing id becomes the request's number. Raises SettingsInvalid, naming the line that is wrong.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"cannot read the prompts: {error}. Give a UTF-8 text file that can be read.") from None
    requests: list[Request] = []
    for place, line in enumerate(map(str.strip, lines), start=1):
        if line:
            try:
                requests.append(_own(len(requests) + 1, line))
            except (RequestInvalid, ValueError, RecursionError) as error:
                raise SettingsInvalid(f"{file}, line {place}: {error}") from None
    if not requests:
        raise SettingsInvalid(f"{file} has no prompts. Write one a line.")
    repeated = [name for name, times in Counter(request.id for request in requests).items() if times > 1]
    if repeated:
        raise SettingsInvalid(f"{file}: an id stands for one request, but these repeat: {', '.join(repeated)}")
    return requests


def shown_question(request: Request) -> str:
    """The text of a request as people would ask it, in one line."""
    if request.messages:
        text = request.messages[-1].content
    else:
        text = request.prompt or f"{len(request.prompt_token_ids or ())} tokens"
    return " ".join(text.split())


def _own(number: int, line: str) -> Request:
    if not line.startswith("{"):
        return _chat(number, line, _OWN_MAX_TOKENS)
    fields: dict[str, Any] = {"id": _id(number), "max_tokens": _OWN_MAX_TOKENS, "temperature": 0.0}
    return parse_request(json.dumps(fields | json.loads(line)).encode())


def _chat(number: int, text: str, max_tokens: int) -> Request:
    turn = ChatMessage(role="user", content=text)
    return Request(id=_id(number), messages=(turn,), max_tokens=max_tokens, temperature=0.0)


def _id(number: int) -> str:
    return f"q-{number:02d}"
