"""Puts the gateway together: the FastAPI application, which describes all, and the hot path before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from busload_shared.errors import BusloadError

from .. import __version__
from ..metrics.gateway_meter import GatewayMeter
from ..openai_api import (
    ChatBody,
    ChatCompletion,
    Completion,
    CompletionBody,
    Refusal,
    refusal,
)
from ..ops_page.desk import OpsDesk
from ..ops_page.routes import routes as ops_routes
from . import batches, files, health, models
from .access import BEARER
from .asgi import Gateway
from .completions import Completions
from .desks import Desks
from .documented import WAITING_ERRORS
from .exchange import json_of
from .file_store import FileStore
from .keys import KeyRing
from .refused import refusal_of
from .settings import GatewaySettings

RELOAD_S = 1.0
"""How often the keys file is looked at."""

_ABOUT = """OpenAI's interface in front of a queue of LLM requests. Text comes when it is finished: a stream has one
chunk for each sample."""

_CODES = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large"}


def application(settings: GatewaySettings, meter: GatewayMeter) -> ASGIApp:
    """The whole gateway, which counts its calls in `meter`. Raises SettingsInvalid; connects at its start."""
    keys = KeyRing(Path(settings.keys_file) if settings.keys_file else None)
    desks = Desks(settings)
    rest = describe(settings)
    rest.state.keys, rest.state.desks = keys, desks
    desks.of(None)  # a Redis URL that is none is told now
    rest.state.ops = OpsDesk(settings, keys)
    rest.state.files = FileStore(Path(settings.files_folder), settings) if settings.files_folder else None
    gateway: ASGIApp = Gateway(settings, keys, Completions(settings, keys, desks), rest, meter)
    if settings.cors_origins:
        gateway = CORSMiddleware(
            gateway, allow_origins=list(settings.cors_origins), allow_methods=["*"], allow_headers=["*"]
        )
    return gateway


def describe(settings: GatewaySettings) -> FastAPI:
    """Everything but the hot path's code, which is described here too."""
    app = FastAPI(
        title="Busload gateway",
        version=__version__,
        description=_ABOUT,
        lifespan=_lifespan(settings),
        docs_url=None,
        redoc_url=None,
    )
    app.add_exception_handler(BusloadError, _busload_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    _describe_completions(app)
    app.include_router(models.router, dependencies=[BEARER])
    app.include_router(files.router, dependencies=[BEARER])
    app.include_router(batches.router, dependencies=[BEARER])
    app.include_router(health.router)
    app.router.routes.extend(ops_routes())
    return app


def _describe_completions(app: FastAPI) -> None:
    streamed = {"text/event-stream": {"schema": {"type": "string"}}}
    answers = {**WAITING_ERRORS, 200: {"content": streamed, "description": "The answer; events where stream is true"}}

    @app.post("/v1/chat/completions", tags=["Completions"], responses=answers, dependencies=[BEARER])
    async def create_chat_completion(body: ChatBody) -> ChatCompletion:  # noqa: ARG001 - describes it
        """Answer a chat. Waits for its result; a caller that leaves cancels it."""
        raise AssertionError("Gateway answers this")

    @app.post("/v1/completions", tags=["Completions"], responses=answers, dependencies=[BEARER])
    async def create_completion(body: CompletionBody) -> Completion:  # noqa: ARG001 - describes it
        """Complete a prompt, or each of several. Waits for all results; a caller that leaves cancels them."""
        raise AssertionError("Gateway answers this")


def _lifespan(settings: GatewaySettings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        keys: KeyRing = app.state.keys
        desks: Desks = app.state.desks
        ops: OpsDesk = app.state.ops
        reloading = asyncio.create_task(_reload(keys))
        try:
            async with batches.running(app, settings):
                yield
        finally:
            reloading.cancel()
            with suppress(asyncio.CancelledError):
                await reloading
            await desks.close()
            await ops.close()

    return lifespan


async def _reload(keys: KeyRing) -> None:
    while True:
        await asyncio.sleep(RELOAD_S)
        await asyncio.to_thread(keys.reload)


def _response(refusal: Refusal, request: Request) -> Response:
    request.state.notes.code = refusal.detail.code
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(json_of(refusal.body), refusal.status, headers, "application/json")


async def _busload_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BusloadError)
    return _response(refusal_of(error), request)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    place = [str(part) for part in problem["loc"][1:]]
    name = ".".join(place) or "body"
    param = place[0] if place else None
    told = refusal(400, f"{name}: {problem['msg']}", type="invalid_request_error", code="invalid_value", param=param)
    return _response(told, request)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    code = _CODES.get(error.status_code, "http_error")
    return _response(refusal(error.status_code, str(error.detail), type=kind, code=code), request)
