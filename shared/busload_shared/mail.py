"""One message for each client whose results are in one delivery, so that it hears of all of them at once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .replies import Delivery

LARGEST_BYTES = 65_536
"""A larger result travels as its id: its reader fetches the key instead. As in lua/deliver.lua."""


class MailBag:
    """The messages of one delivery. `number(row)` is the 1-based number of the row's message, 0 for none."""

    def __init__(self, rows: Sequence[Delivery]) -> None:
        self._numbers = {"": 0}
        self._results: list[list[bytes]] = []
        for row in rows:
            if row.reply and row.id:
                self._put(row)

    def _put(self, row: Delivery) -> None:
        number = self._numbers.setdefault(row.reply, len(self._numbers))
        if number > len(self._results):
            self._results.append([])
        small = len(row.result) <= LARGEST_BYTES
        self._results[number - 1].append(row.result if small else json.dumps(row.id).encode())

    def number(self, row: Delivery) -> int:
        """Which message tells of this row."""
        return self._numbers[row.reply] if row.id else 0

    def args(self) -> list[Any]:
        """How many messages; for each: reply token, rows, text. A message of one row is left to the script to make:
        its text would travel twice."""
        args: list[Any] = [len(self._results)]
        for reply, results in zip(list(self._numbers)[1:], self._results, strict=True):
            args += (reply, len(results), b"[" + b",".join(results) + b"]" if len(results) > 1 else b"")
        return args
