"""Settings come from flags, environment, file and defaults, in this order, and complain in the reader's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from busload_shared.errors import SettingsInvalid
from busload_worker.settings import load_settings


@pytest.fixture(autouse=True)
def _no_settings_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in os.environ:
        if name.startswith("BUSLOAD_"):
            monkeypatch.delenv(name)


def test_the_defaults_are_those_others_rely_on() -> None:
    s = load_settings()

    assert s.redis_url.get_secret_value() == "redis://127.0.0.1:6379/0"
    assert (s.queue, s.engine, s.max_batch_size, s.max_wait_ms) == ("busload:default", "vllm", 32, 50)
    assert (s.lease_s, s.drain_s, s.result_ttl_s) == (15, 30, 86400)
    assert (s.fake_overhead_ms, s.fake_per_request_ms, s.fake_per_token_ms) == (0, 0, 0)


def test_flags_beat_the_environment_and_the_environment_beats_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "busload.toml"
    file.write_text('queue = "from-file"\nmax_batch_size = 1\nlease_s = 20\n[vllm]\nseed = 1\n', encoding="utf-8")
    monkeypatch.setenv("BUSLOAD_SETTINGS_FILE", str(file))
    monkeypatch.setenv("BUSLOAD_MAX_BATCH_SIZE", "2")
    monkeypatch.setenv("BUSLOAD_QUEUE", "from-env")

    s = load_settings(["--queue", "from-flag"])

    assert (s.queue, s.max_batch_size, s.lease_s, s.vllm) == ("from-flag", 2, 20, {"seed": 1})


def test_vllms_own_options_pass_through_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSLOAD_VLLM_MAX_MODEL_LEN", "2048")
    monkeypatch.setenv("BUSLOAD_VLLM_DTYPE", "float32")
    monkeypatch.setenv("BUSLOAD_VLLM_ENFORCE_EAGER", "true")

    assert load_settings().vllm == {"max_model_len": 2048, "dtype": "float32", "enforce_eager": True}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MAX_WAIT_MS", "50ms", "a plain number of milliseconds"),
        ("LEASE_S", "15s", "a plain number of seconds"),
        ("LEASE_S", "15000", "was it meant in milliseconds?"),
        ("MAX_WAIT_MS", "0", "BUSLOAD_MAX_WAIT_MS=1"),
        ("MAX_WAIT_MS", "-1", "BUSLOAD_MAX_WAIT_MS"),
        ("MAX_BATCH_SIZE", "3.5", "BUSLOAD_MAX_BATCH_SIZE='3.5'"),
        ("RELEASE", "never", "'row' or 'batch'"),
        ("QUEUE", "a{b}", "braces"),
        ("SETTINGS_FILE", "/no/such/file", "no such file"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_write(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"BUSLOAD_{name}", value)

    with pytest.raises(SettingsInvalid) as refused:
        load_settings()

    assert f"BUSLOAD_{name}" in str(refused.value)
    assert said in str(refused.value)


def test_every_wrong_setting_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSLOAD_MAX_WAIT_MS", "x")
    monkeypatch.setenv("BUSLOAD_LEASE_S", "y")

    with pytest.raises(SettingsInvalid, match=r"(?s)BUSLOAD_MAX_WAIT_MS.*BUSLOAD_LEASE_S"):
        load_settings()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSLOAD_MAX_BATCHSIZE", "8")

    with pytest.raises(SettingsInvalid, match=r"BUSLOAD_MAX_BATCHSIZE.*did you mean BUSLOAD_MAX_BATCH_SIZE"):
        load_settings()


def test_the_redis_password_is_in_no_representation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSLOAD_REDIS_URL", "redis://:secret-word@127.0.0.1/0")

    s = load_settings()

    assert "secret-word" not in repr(s) + str(s) + s.model_dump_json()
