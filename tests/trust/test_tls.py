"""TLS to Redis: through the URL alone, never without it once it is asked for, and with errors that say what to do."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from tests.conftest import missing
from tests.redis_servers import WANTED, Server, Servers
from tests.trust.authority import Authority
from tests.worker_process import WorkerProcess

from busload import AsyncClient, BusloadUnavailable, Client
from busload_shared.connection import open_redis

PASSWORD = "pa55word-of-the-server"

Start = Callable[..., WorkerProcess]


class Papers:
    """What was signed for these tests, by an authority that Redis trusts, and by one that it does not."""

    def __init__(self, folder: Path) -> None:
        ours, others = Authority(folder, "ours"), Authority(folder, "others")
        self.ca, self.other_ca = ours.certificate, others.certificate
        self.server = ours.sign("server")
        self.client = ours.sign("client")
        self.stranger = others.sign("stranger")
        self.for_another_host = ours.sign("elsewhere", host="127.0.0.2")
        self.expired = ours.sign("expired", expired=True)


class TlsServer(Server):
    """A redis-server with a password that speaks TLS only; tests look after it through its unix socket."""

    def __init__(self, binary: Path, version: str, papers: Papers, own: tuple[Path, Path], *, mutual: bool) -> None:
        super().__init__(binary, version)
        self.papers = papers
        self._more |= {
            "port": "0",
            "tls-port": str(self.port),
            "tls-cert-file": str(own[0]),
            "tls-key-file": str(own[1]),
            "tls-ca-cert-file": str(papers.ca),
            "tls-auth-clients": "yes" if mutual else "no",
            "requirepass": PASSWORD,
        }

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.folder / "redis.sock"), password=PASSWORD, socket_timeout=20)

    def tls_url(self, *, ca: Path | None = None, own: tuple[Path, Path] | None = None) -> str:
        """What a program is given."""
        query = [f"ssl_ca_certs={quote(str(ca or self.papers.ca))}"]
        if own is not None:
            query += [f"ssl_certfile={quote(str(own[0]))}", f"ssl_keyfile={quote(str(own[1]))}"]
        return f"rediss://:{PASSWORD}@127.0.0.1:{self.port}/0?{'&'.join(query)}"


@pytest.fixture(scope="module")
def papers() -> Iterator[Papers]:
    with tempfile.TemporaryDirectory(prefix="busload-tls-") as folder:
        yield Papers(Path(folder))


@pytest.fixture(scope="module")
def start_tls(redis_servers: Servers, papers: Papers) -> Iterator[Callable[..., TlsServer]]:
    """Start a server with these papers, or take the one that was started with them."""
    version = "7.0"
    if version not in redis_servers:
        missing(f"redis-server {version}", WANTED[version])
    running: dict[tuple[Path, bool], TlsServer] = {}

    def start(own: tuple[Path, Path] = papers.server, *, mutual: bool = False) -> TlsServer:
        key = (own[0], mutual)
        if key not in running:
            running[key] = TlsServer(redis_servers.binaries[version], version, papers, own, mutual=mutual)
            running[key].start()
        running[key].reset()
        return running[key]

    yield start
    for server in running.values():
        server.remove()


@pytest.mark.parametrize("mutual", [False, True])
async def test_producers_and_workers_work_over_tls(
    start_tls: Callable[..., TlsServer], start_worker: Start, papers: Papers, mutual: bool
) -> None:
    server = start_tls(mutual=mutual)
    url = server.tls_url(own=papers.client if mutual else None)
    await start_worker(url).ready()
    async with AsyncClient(url, patience_s=20) as client:
        assert (await client.generate(prompt="p", max_tokens=2, timeout_s=30)).status == "succeeded"

    def ask() -> str:
        with Client(url, patience_s=20) as client:
            return client.generate(prompt="p", max_tokens=2, timeout_s=30).status

    assert await asyncio.to_thread(ask) == "succeeded"


WRONG = [
    ("an unknown CA", "not trusted: name the CA's file with ssl_ca_certs"),
    ("no CA's file", "a file does not fit or is not there: see ssl_ca_certs"),
    ("another host's certificate", "for another host"),
    ("an expired certificate", "not trusted: name the CA's file"),
    ("a stranger's certificate of ours", "it wants a certificate of yours that it trusts"),
]


def wrong_url(case: str, start_tls: Callable[..., TlsServer], papers: Papers) -> str:
    """A URL that asks for TLS and cannot have it."""
    if case == "another host's certificate":
        return start_tls(papers.for_another_host).tls_url()
    if case == "an expired certificate":
        return start_tls(papers.expired).tls_url()
    if case == "a stranger's certificate of ours":
        return start_tls(mutual=True).tls_url(own=papers.stranger)
    return start_tls().tls_url(ca=papers.other_ca if case == "an unknown CA" else Path("/nowhere/ca.crt"))


@pytest.mark.parametrize(("case", "says"), WRONG, ids=[case for case, _ in WRONG])
async def test_a_producer_is_told_at_once_what_is_wrong(
    start_tls: Callable[..., TlsServer], papers: Papers, case: str, says: str
) -> None:
    async with AsyncClient(wrong_url(case, start_tls, papers), patience_s=30) as client:
        with pytest.raises(BusloadUnavailable, match=says) as told:
            await asyncio.wait_for(client.submit(prompt="p"), 15)
    assert PASSWORD not in str(told.value)


@pytest.mark.parametrize(("case", "says"), WRONG, ids=[case for case, _ in WRONG])
async def test_a_worker_does_not_start_and_says_why(
    start_tls: Callable[..., TlsServer], start_worker: Start, papers: Papers, case: str, says: str
) -> None:
    worker = start_worker(wrong_url(case, start_tls, papers))
    assert await worker.ended() == 3
    assert says in worker.log()
    assert PASSWORD not in worker.log()


async def test_who_shows_no_certificate_is_refused_where_one_is_wanted(start_tls: Callable[..., TlsServer]) -> None:
    """Redis may close before its reason is read, so the reason is not always told."""
    async with AsyncClient(start_tls(mutual=True).tls_url(), patience_s=0.5) as client:
        with pytest.raises(BusloadUnavailable, match=r"a certificate of yours|does not answer"):
            await client.submit(prompt="p")


async def test_without_tls_nobody_gets_through_to_a_tls_port(start_tls: Callable[..., TlsServer]) -> None:
    server = start_tls()
    async with AsyncClient(f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0", patience_s=0.2) as client:
        with pytest.raises(BusloadUnavailable, match="does not answer"):
            await client.submit(prompt="p")


async def test_who_asks_for_tls_never_falls_back_to_plain_text(papers: Papers) -> None:
    """A server, or somebody between, that offers no TLS gets no password and no prompt."""
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(65536))
        writer.write(b"-ERR no TLS here\r\n")
        writer.close()

    listening = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        url = f"rediss://:{PASSWORD}@127.0.0.1:{port}/0?ssl_ca_certs={papers.ca}"
        async with AsyncClient(url, patience_s=1) as client:
            with pytest.raises(BusloadUnavailable, match="does not speak TLS on this port: name its tls-port"):
                await client.submit(prompt="a secret prompt")
        blocking = open_redis(url)
        with pytest.raises(redis.ConnectionError):
            await blocking.ping()
        await blocking.aclose()
    assert heard
    assert all(words[:1] == b"\x16" for words in heard), "a TLS handshake and nothing else"
    assert PASSWORD.encode() not in b"".join(heard)
