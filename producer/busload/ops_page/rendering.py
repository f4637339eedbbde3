"""Templates to answers, with the headers that keep a page with buttons safe."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

HERE: Final = Path(__file__).parent
STATIC: Final[Mapping[str, str]] = {
    "ops.css": "text/css; charset=utf-8",
    "ops.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Nothing from elsewhere, no script or style in the page itself, in nobody's frame, kept in no cache."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """What is put into a template is text, never markup; a name that a template spells wrong raises."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version_of"] = _version_of
    return environment


def page(template: str, status: int = 200, **values: Any) -> Response:
    """The template with these values."""
    return HTMLResponse(_environment().get_template(template).render(**values), status, dict(HEADERS))


def static(name: str) -> Response | None:
    """A file of the page's own, None for what is none. Browsers keep it: its address changes when it does."""
    if name not in STATIC:
        return None
    headers = {**HEADERS, "Cache-Control": "public, max-age=86400"}
    return Response(_content(name), 200, headers, STATIC[name])


@lru_cache
def _content(name: str) -> bytes:
    return (HERE / "static" / name).read_bytes()


@lru_cache
def _version_of(name: str) -> str:
    return sha256(_content(name)).hexdigest()[:12]
