"""The worker's settings: flags over environment over file over defaults. Read once, by `__main__`."""

from __future__ import annotations

import difflib
import io
import json
import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.sources import InitSettingsSource

from busload_shared.errors import SettingsInvalid
from busload_shared.keys import Keys
from busload_shared.partitions.homes import MOST

PREFIX = "BUSLOAD_"
VLLM_PREFIX = "BUSLOAD_VLLM_"
_SHOWN_CHARACTERS = 200


class Settings(BaseSettings):
    """Every setting of a worker. Each is `BUSLOAD_<NAME>` in the environment and `--<name>` as a flag."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        frozen=True,
        extra="forbid",
        cli_prog_name="busload-worker",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_avoid_json=True,
        cli_hide_none_type=True,
    )

    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:6379/0"), description="Redis to work on")
    queue: str = Field("busload:default", description="list that producers push to")
    partitions: Annotated[int, Field(ge=1, le=MOST)] = Field(
        1, description="lists over which the queue is spread; a worker's number is never less than a producer's"
    )
    wait_replicas: Annotated[int, Field(ge=0, le=100)] = Field(
        0, description="replicas of Redis that must have a result before it counts as delivered"
    )
    wait_timeout_ms: Annotated[int, Field(ge=1, le=4000)] = Field(
        1000, description="how long replicas may take for that, before the worker tries again, ms"
    )
    engine: str = Field("vllm", description="vllm, fake, or package.module:Class of your own")
    model: str = Field("", description="model folder or name, for the vllm engine")
    max_batch_size: Annotated[int, Field(ge=1, le=1024)] = Field(32, description="most requests in a batch")
    max_wait_ms: Annotated[float, Field(gt=0, le=600_000)] | Literal["auto"] = Field(
        50, description="longest the oldest waits for more, ms; auto: learned from arrivals and batch times"
    )
    wait_cap_ms: Annotated[float, Field(gt=0, le=600_000)] = Field(1000, description="no learned wait is longer, ms")
    order: Literal["fifo", "length"] = Field(
        "fifo", description="under a backlog: batches in order of arrival, or of requests of like length"
    )
    max_batch_tokens: Annotated[int, Field(ge=0, le=2**40)] = Field(
        0, description="most tokens in a batch, prompts and max_tokens; 0: what the engine's KV cache holds"
    )
    release: Literal["row", "batch"] = Field(
        "row", description="write each result when its row ends, or all when the batch ends"
    )
    lease_s: Annotated[float, Field(ge=0.5, le=3600)] = Field(
        15, description="a silent worker's batch is taken back after this, s"
    )
    max_batch_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        600, description="a batch that runs longer is given up, and its engine killed, s"
    )
    drain_s: Annotated[float, Field(ge=0, le=3600)] = Field(
        30, description="time to finish the running batch on SIGTERM, s"
    )
    result_ttl_s: Annotated[float, Field(ge=1, le=31_536_000)] = Field(
        86_400, description="how long a result is kept, s"
    )
    engine_start_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        600, description="longest an engine may take to start, s"
    )
    engine_hang_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        60, description="an engine without a step for this long while it runs is killed, s"
    )
    engine_host: Literal["auto", "process", "inline"] = Field(
        "auto", description="run the engine in a process of its own; inline only for the fake"
    )
    bad_machine_after: Annotated[int, Field(ge=0, le=1000)] = Field(
        3, description="a worker stops after so many batches killed its engine and were answered by others; 0: never"
    )
    fake_overhead_ms: Annotated[float, Field(ge=0, le=1e9)] = Field(0, description="fake engine: per batch, ms")
    fake_per_request_ms: Annotated[float, Field(ge=0, le=1e9)] = Field(0, description="fake engine: per request, ms")
    fake_per_token_ms: Annotated[float, Field(ge=0, le=1e9)] = Field(
        0, description="fake engine: per token of the longest row, ms"
    )
    fake_per_prompt_token_ms: Annotated[float, Field(ge=0, le=1e9)] = Field(
        0, description="fake engine: per token of all prompts, ms"
    )
    fake_per_row_token_ms: Annotated[float, Field(ge=0, le=1e9)] = Field(
        0, description="fake engine: per new token of all rows, ms"
    )
    vllm: dict[str, JsonValue] = Field(
        default_factory=dict, description="vLLM's own options; in the environment BUSLOAD_VLLM_<OPTION>"
    )
    worker_name: Annotated[str, Field(pattern=r"^[^\s\x00-\x1f\x7f-\x9f]{1,128}$")] = Field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}",
        description="name in results and logs",
    )
    ready_file: str = Field("", description="a file that is there while the worker is ready")
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        0, description="port of Prometheus metrics; 0: none, since workers on one machine need a port each"
    )
    metrics_host: str = Field("127.0.0.1", description="address on which metrics are served; 0.0.0.0: on all")
    tracing: Literal["auto", "on", "off"] = Field(
        "auto", description="OpenTelemetry spans; auto: when its SDK is installed and an OTEL variable says where to"
    )
    log_format: Literal["auto", "console", "json"] = Field("auto", description="auto: console on a terminal, else json")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="how much is logged; a prompt's text never is"
    )

    @property
    def longest_wait_ms(self) -> float:
        """What the oldest waits for more at most, ms."""
        return self.wait_cap_ms if self.max_wait_ms == "auto" else self.max_wait_ms

    @field_validator("queue")
    @classmethod
    def _queue_is_one_slot(cls, name: str) -> str:
        try:
            Keys(name)
        except SettingsInvalid as error:
            raise ValueError(str(error)) from None
        return name

    @field_validator("ready_file")
    @classmethod
    def _ready_file_can_be_made(cls, name: str) -> str:
        """Now rather than in the midst of the housekeeping, on which everybody's leases depend."""
        folder = Path(name).parent
        if name and ("\0" in name or Path(name).is_dir() or not os.access(folder, os.W_OK | os.X_OK)):
            raise ValueError(f"no file can be written in {folder}")
        return name

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        vllm = InitSettingsSource(settings_cls, {"vllm": options} if (options := vllm_options()) else {})
        file = os.environ.get("BUSLOAD_SETTINGS_FILE")
        toml = (TomlConfigSettingsSource(settings_cls, file),) if file else ()
        return (init_settings, env_settings, vllm, *toml)


def vllm_options() -> dict[str, Any]:
    """vLLM's options from the environment: `BUSLOAD_VLLM_MAX_MODEL_LEN=2048` is `max_model_len`, 2048.

    Values are JSON where they parse as JSON, else text.
    """
    found = {}
    for name, text in os.environ.items():
        if name.startswith(VLLM_PREFIX):
            try:
                found[name.removeprefix(VLLM_PREFIX).lower()] = json.loads(text)
            except RecursionError:
                raise SettingsInvalid(f"{name}: the JSON is nested too deeply") from None
            except ValueError:
                found[name.removeprefix(VLLM_PREFIX).lower()] = text
    return found


def load_settings(arguments: list[str] | None = None) -> Settings:
    """Read the settings; `arguments` are the command line's words. Raises SettingsInvalid, a line for each fault."""
    file = os.environ.get("BUSLOAD_SETTINGS_FILE")
    if file and not os.path.isfile(file):
        raise SettingsInvalid(f"BUSLOAD_SETTINGS_FILE={file}: no such file; name a TOML file or unset it")
    if misspelt := _misspelt():
        raise SettingsInvalid("\n".join(misspelt))
    try:
        with _masked_stderr():
            return Settings(_cli_parse_args=arguments if arguments is not None else False)
    except ValidationError as error:
        raise SettingsInvalid("\n".join(map(_complaint, error.errors(include_url=False)))) from None
    except (TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsInvalid(f"BUSLOAD_SETTINGS_FILE={file}: not TOML: {error}") from None


@contextmanager
def _masked_stderr() -> Iterator[None]:
    """The command line's parser repeats a word it does not know, which may be a URL with its password."""
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            yield
    finally:
        sys.stderr.write(re.sub(r"(?<=://)\S*@", "…@", said.getvalue()))


def _misspelt() -> list[str]:
    """Variables that are nearly a setting: ignoring them would silently run with a default."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    lines = []
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known and not name.startswith(VLLM_PREFIX):
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
            lines += [f"{name} is no setting: did you mean {near[0]}?"] if near else []
    return lines


def _complaint(problem: Any) -> str:
    """One wrong setting, in the words of the environment, with what to write instead."""
    field = str(problem["loc"][0]) if problem["loc"] else "settings"
    secret = field == "redis_url" or problem["type"] == "extra_forbidden"  # perhaps redis_url, misspelt
    given = "" if secret else f"={_cut(repr(problem['input']))}"
    return f"{PREFIX}{field.upper()}{given}: {problem['msg']}. {_hint(field, problem)}".rstrip()


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _hint(field: str, problem: Any) -> str:
    unit = {"ms": "milliseconds", "s": "seconds"}.get(field.rpartition("_")[2])
    if problem["type"] in ("float_parsing", "int_parsing") and unit:
        return f"Write a plain number of {unit}, without a unit: {PREFIX}{field.upper()}=50"
    if field == "max_wait_ms" and problem["type"] == "greater_than":
        return "The wait is in milliseconds and over 0; for hardly any wait write BUSLOAD_MAX_WAIT_MS=1"
    if problem["type"] == "less_than_equal" and unit == "seconds":
        return "The unit is seconds: was it meant in milliseconds?"
    if problem["type"] == "extra_forbidden":
        return "There is no such setting; busload-worker --help lists them"
    return ""
