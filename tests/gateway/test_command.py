"""`busload-gateway` as a command, and what it refuses to start with."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from busload.gateway.__main__ import main
from busload.gateway.application import application
from busload.gateway.keys import read_keys
from busload.gateway.settings import GatewaySettings
from busload.metrics.gateway_meter import GatewayMeter


@pytest.fixture(autouse=True)
def _logs_stay_as_they_are() -> Iterator[None]:
    """The command sets up logs for its whole process, which here is that of the tests."""
    loggers = [logging.getLogger(name) for name in ("busload", "uvicorn")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_a_new_key_fits_into_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["new-key", "shop"]) == 0
    shown = capsys.readouterr()
    (tmp_path / "keys.toml").write_text(shown.out)
    [key] = read_keys(tmp_path / "keys.toml")
    assert key.sha256 == hashlib.sha256(shown.err.split()[-1].encode()).hexdigest()
    assert main(["new-key", "two words"]) == 2
    assert "letters" in capsys.readouterr().err


def test_it_prints_the_document_and_its_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    assert "/v1/batches" in json.loads(capsys.readouterr().out)["paths"]
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "BUSLOAD_GATEWAY_KEYS_FILE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"PORT": "none"}, "BUSLOAD_GATEWAY_PORT"),
        ({"HOST": "0.0.0.0"}, "anybody could call"),
        ({"KEYS_FILE": "/nowhere/keys.toml"}, "cannot be read"),
        ({"REDIS_URL": "http://user:secret@a"}, "not a Redis URL"),
        ({"QUEUE": "{a}"}, "BUSLOAD_GATEWAY_QUEUE"),
        ({"FILES_FOLDER": "/proc/none"}, "BUSLOAD_GATEWAY_FILES_FOLDER"),
    ],
)
def test_a_wrong_setting_is_named(
    settings: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"BUSLOAD_GATEWAY_{name}", value)
    assert main([]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert "secret" not in said


def test_without_its_extra_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['fastapi'] = None; from busload.gateway.__main__ import main; sys.exit(main([]))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr.strip()) == (
        2,
        'busload-gateway: the gateway needs FastAPI and uvicorn: pip install "busload[gateway]"',
    )


async def test_an_origin_that_is_named_may_call() -> None:
    app = application(GatewaySettings(cors_origins=("http://a",)), GatewayMeter(queue="q"))
    asked = {"Access-Control-Request-Method": "POST"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        allowed = await client.options("/v1/completions", headers=asked | {"Origin": "http://a"})
        other = await client.options("/v1/completions", headers=asked | {"Origin": "http://b"})
    assert allowed.headers["access-control-allow-origin"] == "http://a"
    assert "access-control-allow-origin" not in other.headers
