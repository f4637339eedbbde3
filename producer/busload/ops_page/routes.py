"""Where each part of the page is. None of it is in the OpenAPI document: it is for people."""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from . import actions, pages
from .desk import guarded
from .door import HOME


def routes() -> list[BaseRoute]:
    """All of them. They need `app.state.ops`."""
    return [
        Route(HOME, guarded(pages.overview)),
        Route(f"{HOME}/live", guarded(pages.live)),
        Route(f"{HOME}/dead", guarded(pages.dead)),
        Route(f"{HOME}/dead/ask", guarded(pages.ask)),
        Route(f"{HOME}/dead/redrive", guarded(actions.redrive), methods=["POST"]),
        Route(f"{HOME}/dead/redrive-all", guarded(actions.redrive_all), methods=["POST"]),
        Route(f"{HOME}/dead/drop", guarded(actions.drop), methods=["POST"]),
        Route(f"{HOME}/login", pages.login, methods=["GET", "POST"]),
        Route(f"{HOME}/logout", guarded(pages.logout), methods=["POST"]),
        Route(f"{HOME}/static/{{name}}", pages.file),
    ]
