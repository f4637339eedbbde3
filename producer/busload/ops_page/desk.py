"""What all routes of the page share: the door, the sight of the queues, and how a call goes through both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from busload_shared.errors import BusloadError
from busload_shared.queue import Queue
from busload_shared.refusals import lacks_rights

from ..gateway.desks import partitions_of
from ..gateway.keys import KeyRing
from ..gateway.refused import Refused
from ..gateway.settings import GatewaySettings
from ..operating.reaching import queue_at
from .door import HOME, Door, SignInNeeded, Visitor
from .figures import plain
from .rendering import page
from .sight import RIGHTS, Sights

PATIENCE_S = 1.0
"""A connection that Redis closed while nobody looked is opened again within this."""


class OpsDesk:
    """One for a gateway; close it at the end."""

    def __init__(self, settings: GatewaySettings, keys: KeyRing) -> None:
        self._settings = settings
        self._keys = keys
        self.door: Door = Door(settings, keys)
        self.sights: Sights = Sights(self._open)
        self.sights.of(settings.queue)  # a Redis URL that is none is told now

    def _open(self, name: str) -> Queue:
        chosen = self._settings
        url = chosen.ops_redis_url.get_secret_value() or chosen.redis_url.get_secret_value()
        return queue_at(url, name, partitions=partitions_of(name, chosen), patience_s=PATIENCE_S)

    def queues(self) -> list[str]:
        """Those that are shown."""
        if self._settings.ops_queues:
            return list(dict.fromkeys(self._settings.ops_queues))
        return self._keys.queues(self._settings.queue)

    async def close(self) -> None:
        """Disconnect from Redis."""
        await self.sights.close()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of somebody who may: `fields` are the form's, or else the query's."""

    desk: OpsDesk
    request: Request
    visitor: Visitor
    fields: dict[str, str]

    @property
    def form_token(self) -> str:
        """For the forms of the page that answers."""
        return "" if self.visitor.token is None else self.desk.door.sessions.form_token(self.visitor.token)

    def field(self, name: str) -> str:
        """What was given under this name, or nothing."""
        return self.fields.get(name, "")

    def queue(self) -> str:
        """The queue that is meant. Raises NoSuchQueue."""
        queues = self.desk.queues()
        name = self.field("queue") or queues[0]
        if name not in queues:
            raise NoSuchQueue("this page does not show that queue: see BUSLOAD_GATEWAY_OPS_QUEUES")
        return name

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """The template, with what every page needs."""
        who, here = self.visitor.operator.name, self.request.url.path
        return page(template, status, who=who, form_token=self.form_token, here=here, **values)

    def told(self, status: int, text: str) -> Response:
        """A page that says one thing."""
        return self.page("told.html", status, text=text)


class NoSuchQueue(BusloadError):
    """Whoever asks must name a queue that the page shows."""


Handler = Callable[[Call], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def guarded(handle: Handler) -> Endpoint:
    """For operators only; a form must come from a page of ours. What goes wrong is told in a page."""

    async def endpoint(request: Request) -> Response:
        desk: OpsDesk = request.app.state.ops
        try:
            visitor = desk.door.visitor(request)
        except SignInNeeded:
            return _to_the_door(request)
        request.state.notes.key = visitor.operator.name
        call = Call(desk, request, visitor, await _fields(request))
        if request.method == "POST" and not _is_own_form(call):
            return call.told(403, "This form is not of this session: go back, load the page again, and repeat it.")
        try:
            return await handle(call)
        except NoSuchQueue as error:
            return call.told(404, f"{plain(str(error))}.")
        except Refused:
            raise
        except BusloadError as error:
            return call.told(503, RIGHTS if lacks_rights(error) else f"{plain(str(error))}.")

    return endpoint


def _to_the_door(request: Request) -> Response:
    if request.method in ("GET", "HEAD") and not request.url.path.endswith("/live"):
        return RedirectResponse(f"{HOME}/login", 303, {"Cache-Control": "no-store"})
    return page("told.html", 401, who="", form_token="", here="", text="Your session is over: sign in again.")


def _is_own_form(call: Call) -> bool:
    """A program that sends its key needs no token: no browser sends that by itself."""
    token = call.visitor.token
    return token is None or call.desk.door.sessions.is_own_form(token, call.field("form_token"))


async def _fields(request: Request) -> dict[str, str]:
    if request.method != "POST":
        return dict(request.query_params)
    return await form_of(request)


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return {name: values[-1] for name, values in parse_qs(body, max_num_fields=32).items()}
    except ValueError:  # no form of ours has so many
        return {}
