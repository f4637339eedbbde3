"""The lines of one batch on their way: its caller's limits are kept, and it can be told to stop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from busload_shared.errors import RequestInvalid
from busload_shared.request import parse_request

from ..bulk.answers import OpenAILines
from ..bulk.entry import Entry
from ..bulk.flight import Answer
from ..encoding import outgoing
from ..openai_api import ParameterInvalid
from .keys import Key
from .limits import check, defaults_for
from .settings import GatewaySettings


class BatchLines:
    """Iterates over the entries of a batch, and writes their records. `under_way` are the ids that have none yet."""

    header = b""

    def __init__(self, key: Key, endpoint: str, settings: GatewaySettings) -> None:
        self.under_way: set[str] = set()
        self._key = key
        self._defaults = defaults_for(key, settings)
        self._endpoint = endpoint
        self.models: tuple[str, ...] = ()
        """Those that are served; when there are none any will do."""
        self._encoder = OpenAILines()
        self._stopped = False

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True

    def of(self, entries: Iterable[Entry | None]) -> Iterator[Entry | None]:
        """The entries as this caller may have them; None for one that was written before. Told to stop, only those
        that were under way when this began."""
        before = set(self.under_way)
        for entry in entries:
            if self._stopped and not before:
                return
            was_sent = entry is not None and entry.id in before
            if self._stopped and not was_sent:
                continue
            if entry is not None:
                before.discard(entry.id)
            checked = entry if entry is None or entry.one is None else self._checked(entry)
            if checked is not None and checked.one is not None:
                self.under_way.add(checked.id)
            yield checked

    def record(self, entry: Entry, answer: Answer) -> bytes:
        """The line to write."""
        self.under_way.discard(entry.id)
        return self._encoder.record(entry, answer)

    def _checked(self, entry: Entry) -> Entry:
        assert entry.one is not None
        try:
            self._check_line(entry)
            request = parse_request(entry.one.payload)
            left_open = {name: value for name, value in self._defaults.items() if name not in request.model_fields_set}
            request = request.model_copy(update=left_open)
            check(request, self._key)
        except RequestInvalid as error:
            return entry._replace(one=None, error=error)
        model = entry.model or (self.models[0] if self.models else "unknown")
        return entry._replace(one=outgoing(request), model=model)

    def _check_line(self, entry: Entry) -> None:
        if entry.endpoint != self._endpoint:
            raise ParameterInvalid(f"url: this batch is for {self._endpoint}", param="url")
        if entry.model and self.models and entry.model not in self.models:
            names = ", ".join(self.models)
            said = f"the model {entry.model[:64]!r} is not served here; there are: {names}"
            raise ParameterInvalid(said, param="model")
