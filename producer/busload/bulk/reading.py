"""From the lines of the input to entries: what is done before is left out, what is wrong is told and stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json, to_json

from busload_shared.crowding import MAX_CONTAINERS, crowded
from busload_shared.errors import RequestInvalid
from busload_shared.request import MAX_PAYLOAD_BYTES, Request, reason

from ..encoding import outgoing
from ..openai_api.bodies import ENDPOINTS, as_request
from .entry import Entry
from .lines import LONGEST_LINE, Format, LineSource
from .table import rows
from .written import Job, Names, Written, digest_of

Fields = dict[str, Any]
Record = tuple[int, bytes, Callable[[], Fields]]
"""A record's line number, its bytes, and what parses it."""

_LONGEST_NAME = 512


class Entries:
    """Iterates over the entries; None stands for a line that an earlier run has written.

    A name (`custom_id`, or `id` in a plain file) that comes a second time is an error of the second line.
    """

    def __init__(self, source: LineSource, kind: Format, job: Job, written: Written) -> None:
        self._records = _of_table(source) if kind is Format.csv else _of_json(source)
        self._entry = _openai if kind is Format.openai else _plain
        self._job = job
        self._written = written
        self._names = Names()

    def __iter__(self) -> Iterator[Entry | None]:
        for number, text, parse in self._records:
            digest = digest_of(text)
            done = self._written.holds(number, digest)
            blank = Entry(number, self._job.request_id(number, digest))
            try:
                fields = parse()
                blank = blank._replace(custom_id=self._name(fields))
                yield None if done else self._entry(blank, fields)
            except _Repeated as error:
                yield None if done else blank._replace(error=error, custom_id=error.name)
            except RequestInvalid as error:
                yield None if done else blank._replace(error=error)

    def _name(self, fields: Fields) -> str | None:
        given = [fields[name] for name in ("custom_id", "id") if fields.get(name) is not None]
        if not given:
            return None
        if not isinstance(given[0], str) or not 1 <= len(given[0]) <= _LONGEST_NAME:
            raise RequestInvalid(f"custom_id: give a text of 1 to {_LONGEST_NAME} characters")
        if not self._names.add(given[0]):
            raise _Repeated(given[0])
        return given[0]


class _Repeated(RequestInvalid):
    """Its name is known, though another line has it."""

    def __init__(self, name: str) -> None:
        super().__init__("custom_id: an earlier line has the same; give each line its own")
        self.name = name


def _of_json(source: LineSource) -> Iterator[Record]:
    for number, line in source:
        text = line.strip()
        if text:
            yield number, text, lambda text=text: _object(text)  # type: ignore[misc]


def _of_table(source: LineSource) -> Iterator[Record]:
    for number, row in rows(source):
        yield number, row.text, row.fields


def _object(text: bytes) -> Fields:
    if len(text) >= LONGEST_LINE:
        raise RequestInvalid(f"the line is over {LONGEST_LINE} bytes; a request has at most {MAX_PAYLOAD_BYTES}")
    if crowded(text):
        raise RequestInvalid(f"the line has more than {MAX_CONTAINERS} lists and objects")
    try:
        record = from_json(text)
    except ValueError as error:
        raise RequestInvalid(f"not JSON: {str(error)[:200]}") from None
    if not isinstance(record, dict):
        raise RequestInvalid("not a JSON object")
    return record


def _plain(blank: Entry, fields: Fields) -> Entry:
    """Fields of a Request; its own id is the line's name, and goes no further than this file."""
    fields.pop("custom_id", None)
    fields["id"] = blank.id
    try:
        request = Request.model_validate_json(to_json(fields))
    except ValidationError as error:
        raise RequestInvalid(reason(error)) from None
    except ValueError as error:
        raise RequestInvalid(f"not JSON: {str(error)[:200]}") from None
    return blank._replace(one=outgoing(request))


def _openai(blank: Entry, fields: Fields) -> Entry:
    """A line of an OpenAI Batch file."""
    if blank.custom_id is None:
        raise RequestInvalid("custom_id: Field required")
    url, body = fields.get("url"), fields.get("body")
    if fields.get("method") != "POST":
        raise RequestInvalid("method: only POST is known")
    if not isinstance(url, str) or url not in ENDPOINTS:
        raise RequestInvalid(f"url: give {' or '.join(ENDPOINTS)}")
    if not isinstance(body, dict):
        raise RequestInvalid("body: give an object")
    if body.get("stream"):
        raise RequestInvalid("stream: a file is not streamed; leave it out")
    request = as_request(url, body, id=blank.id)
    return blank._replace(
        one=outgoing(request), endpoint=url, model=body.get("model") or "", top_logprobs=request.logprobs
    )
