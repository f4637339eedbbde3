"""TLS to sentinels and to cluster nodes, through the URL alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tests.conftest import get_server
from tests.redis_groups import MASTER, SLOTS, Sentinel, ask, until
from tests.redis_servers import Server, Servers
from tests.trust.authority import Authority

from busload import AsyncClient, BusloadUnavailable

QUEUE = "busload:test"
VERSION = "7.0"
"""The one of the three that is built with TLS."""


class Papers:
    """A certificate for 127.0.0.1 and who signed it; and somebody else's authority."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder, "ours")
        self.ca, self.other_ca = authority.certificate, Authority(folder, "others").certificate
        self.own, self.key = authority.sign("server")

    def lines(self, port: str) -> dict[str, str]:
        """Settings of a server that speaks TLS only."""
        return {
            "port": "0",
            "tls-port": port,
            "tls-cert-file": str(self.own),
            "tls-key-file": str(self.key),
            "tls-ca-cert-file": str(self.ca),
            "tls-auth-clients": "no",
            "tls-replication": "yes",
        }


class TlsNode(Server):
    """A cluster of one node, which is also a master for a sentinel; looked after through its unix socket."""

    def __init__(self, binary: Path, papers: Papers, more: dict[str, str]) -> None:
        super().__init__(binary, VERSION)
        self._more |= papers.lines(str(self.port)) | more

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.folder / "redis.sock"), socket_timeout=20)


class TlsSentinel(Sentinel):
    """A sentinel that speaks TLS only."""

    def __init__(self, binary: Path, master: Server, papers: Papers) -> None:
        super().__init__(binary, VERSION, master, "".join(f"{k} {v}\n" for k, v in papers.lines("PORT").items()))
        self._ca = papers.ca

    def client(self) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port, socket_timeout=20, ssl=True, ssl_ca_certs=str(self._ca))


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path)


@pytest.fixture
def binary(redis_servers: Servers) -> Path:
    get_server(redis_servers, VERSION)
    return redis_servers.binaries[VERSION]


@pytest.fixture
def node_url(binary: Path, papers: Papers) -> Iterator[str]:
    node = TlsNode(binary, papers, {"cluster-enabled": "yes", "tls-cluster": "yes"})
    try:
        node.start()
        ask(node, "CLUSTER", "ADDSLOTS", *range(SLOTS))
        until(lambda: ask(node, "CLUSTER INFO")["cluster_state"] == "ok", "it is a cluster")
        yield f"rediss+cluster://127.0.0.1:{node.port}?ssl_ca_certs="
    finally:
        node.remove()


@pytest.fixture
def sentinel_url(binary: Path, papers: Papers) -> Iterator[str]:
    master = TlsNode(binary, papers, {})
    sentinel = TlsSentinel(binary, master, papers)
    try:
        master.start()
        sentinel.start()
        yield f"rediss+sentinel://127.0.0.1:{sentinel.port}/{MASTER}?ssl_ca_certs="
    finally:
        sentinel.remove()
        master.remove()


@pytest.mark.parametrize("kind", ["node_url", "sentinel_url"])
async def test_all_is_said_over_tls_and_a_wrong_authority_is_named(
    request: pytest.FixtureRequest, papers: Papers, kind: str
) -> None:
    url = request.getfixturevalue(kind)
    async with AsyncClient(f"{url}{papers.ca}", queue=QUEUE) as client:
        assert (await client.submit(prompt="p")).state == "queued"
    async with AsyncClient(f"{url}{papers.other_ca}", queue=QUEUE, patience_s=60) as client:
        with pytest.raises(BusloadUnavailable, match="name the CA's file with ssl_ca_certs"):
            await client.submit(prompt="p")
