"""Reads the URLs of a Redis that is found by asking: `redis+sentinel://` and `redis+cluster://`."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.connection import Connection, SSLConnection, parse_url

from .following import Address, FollowingPool, Route, SentinelRoute, SlotRoute

FOLLOWED = re.compile(r"(rediss?)\+(sentinel|cluster)://")

_DEFAULT_PORT = {"sentinel": 26379, "cluster": 6379}


def following(url: str, *, queue: str, max_connections: int | None, **options: Any) -> Redis:
    """A client for a URL that FOLLOWED matches. The query's options are redis-py's, as in a plain URL.

    Raises ValueError for a URL that is none.
    """
    parts = urlsplit(url)
    base, kind = parts.scheme.split("+")
    user, at, hosts = parts.netloc.rpartition("@")
    seeds = [_address(host, _DEFAULT_PORT[kind]) for host in hosts.split(",")]
    service, _, db = parts.path.strip("/").partition("/") if kind == "sentinel" else ("", "", parts.path.strip("/"))
    databases = r"\d*" if kind == "sentinel" else "0?"
    if (kind == "sentinel") != bool(service) or (kind == "cluster" and not queue) or not re.fullmatch(databases, db):
        raise ValueError("a sentinel URL names the master, a cluster has one database, and a slot is a queue's")
    options |= parse_url(f"{base}://{user}{at}host/{db}?{parts.query}")
    own = {name: options.pop(f"sentinel_{name}", None) for name in ("username", "password")}
    for name in ("host", "port", "connection_class"):
        options.pop(name, None)
    tls = base == "rediss"
    asking = options | {"connection_class": SSLConnection if tls else Connection}
    route: Route
    if kind == "sentinel":
        route = SentinelRoute(seeds, asking | own, master=unquote(service))
    else:
        route = SlotRoute(seeds, asking, queue=queue)
    return Redis.from_pool(FollowingPool(route, tls=tls, max_connections=max_connections, **options))


def _address(text: str, default_port: int) -> Address:
    where = urlsplit(f"//{text}")
    if not where.hostname or where.path:
        raise ValueError("no host")
    return where.hostname, where.port or default_port
