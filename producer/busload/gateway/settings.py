"""The gateway's settings, from the environment. Read once, by `__main__`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from busload_shared.errors import SettingsInvalid
from busload_shared.keys import Keys
from busload_shared.partitions.homes import MOST as MOST_PARTITIONS

from ..openai_api import MOST_PROMPTS

PREFIX = "BUSLOAD_GATEWAY_"
LEAST_SECRET = 16
"""Characters of a secret that guards something."""

_ALSO = {"redis_url": "BUSLOAD_REDIS_URL", "queue": "BUSLOAD_QUEUE", "partitions": "BUSLOAD_PARTITIONS"}
"""What the worker's variables say goes for the gateway too, unless it has its own."""


class GatewaySettings(BaseModel):
    """Every setting. Each is `BUSLOAD_GATEWAY_<NAME>` in the environment; lists are separated by commas."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    redis_url: SecretStr = Field(SecretStr("redis://127.0.0.1:6379/0"), description="Redis of the queues")
    queue: str = Field("busload:default", description="queue of keys that name none, and of all without keys")
    partitions: Annotated[int, Field(ge=1, le=MOST_PARTITIONS)] = Field(
        1, description="lists over which that queue is spread; its workers must serve as many"
    )
    host: str = Field("127.0.0.1", description="address to listen on")
    port: Annotated[int, Field(ge=0, le=65535)] = Field(8000, description="port to listen on; 0: any that is free")
    keys_file: str = Field("", description="TOML file of the keys callers need; empty: none is needed")
    allow_anonymous: bool = Field(False, description="listen on other addresses than loopback without keys")
    max_body_bytes: Annotated[int, Field(ge=1, le=1_048_576)] = Field(
        1_048_576, description="largest body, bytes; a file to upload has its own limit"
    )
    max_queue_length: Annotated[int, Field(ge=1)] = Field(
        100_000, description="depth of a queue at which newcomers are refused with 429"
    )
    result_ttl_s: Annotated[float, Field(ge=1)] = Field(
        86_400, description="how long the cancel of a request is kept, s"
    )
    patience_s: Annotated[float, Field(ge=0, le=600)] = Field(
        5, description="how long a call survives Redis being away before it is refused with 503, s"
    )
    request_timeout_s: Annotated[float, Field(gt=0, le=86_400)] = Field(
        600, description="longest a caller waits for a completion, s; then 504"
    )
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        256, description="new tokens at most, where a body does not say"
    )
    max_prompts: Annotated[int, Field(ge=1, le=MOST_PROMPTS)] = Field(
        128, description="prompts of one call at most; each is a request of its own"
    )
    keep_alive_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        10, description="a streamed answer that is awaited shows life so often, s"
    )
    drain_s: Annotated[int, Field(ge=0, le=3600)] = Field(
        30, description="time for those who wait, once the gateway is told to stop, s"
    )
    files_folder: str = Field("", description="folder of uploaded files and batches; empty: these endpoints are off")
    max_file_bytes: Annotated[int, Field(ge=1)] = Field(536_870_912, description="largest file to upload, bytes")
    max_files_bytes: Annotated[int, Field(ge=1)] = Field(
        10_737_418_240, description="most all files of one key may take together, bytes"
    )
    batches_at_once: Annotated[int, Field(ge=1, le=64)] = Field(
        2, description="batches that run at the same time; others wait"
    )
    batch_in_flight: Annotated[int, Field(ge=1, le=100_000)] = Field(
        1024, description="requests of one batch in the queue at the same time"
    )
    model_names: tuple[str, ...] = Field((), description="further names by which callers may ask for the model")
    cors_origins: tuple[str, ...] = Field((), description="web origins whose pages may call; none by default")
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        0, description="port of Prometheus metrics; 0: none. Not the one that callers use"
    )
    metrics_host: str = Field("127.0.0.1", description="address on which metrics are served; 0.0.0.0: on all")
    ops_key: SecretStr = Field(
        SecretStr(""), description="secret that opens the operations page, beside the operators of the keys file"
    )
    ops_redis_url: SecretStr = Field(
        SecretStr(""), description="Redis of the operations page, by a user with more rights; empty: the gateway's"
    )
    ops_queues: tuple[str, ...] = Field(
        (), description="queues that the operations page shows; empty: those that callers use"
    )
    ops_session_s: Annotated[int, Field(ge=60, le=2_592_000)] = Field(
        28_800, description="how long a browser stays signed in to the operations page, s"
    )
    ops_session_secret: SecretStr = Field(
        SecretStr(""),
        description="signs these sessions, the same for several gateways; empty: random at each start",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="INFO has a line for each request, WARNING has none"
    )

    @field_validator("model_names", "cors_origins", "ops_queues", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        return tuple(one.strip() for one in value.split(",") if one.strip()) if isinstance(value, str) else value

    @field_validator("queue", "ops_queues")
    @classmethod
    def _queues(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (value,) if isinstance(value, str) else value:
            try:
                Keys(name)
            except SettingsInvalid as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("ops_key", "ops_session_secret")
    @classmethod
    def _not_guessed(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value()) < LEAST_SECRET:
            raise ValueError(f"at least {LEAST_SECRET} characters, at random: openssl rand -hex 32")
        return value


def read_settings(environment: Mapping[str, str]) -> GatewaySettings:
    """The settings of `environment`. Raises SettingsInvalid, which names the variable and never shows its value."""
    known = GatewaySettings.model_fields
    given: dict[str, Any] = {name: environment[other] for name, other in _ALSO.items() if environment.get(other)}
    unknown = [name for name in environment if name.startswith(PREFIX) and name[len(PREFIX) :].lower() not in known]
    if unknown:
        raise SettingsInvalid(f"{unknown[0]} is no setting of the gateway; see busload-gateway --help")
    given |= {name: environment[PREFIX + name.upper()] for name in known if environment.get(PREFIX + name.upper())}
    try:
        return GatewaySettings(**given)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        name = str(problem["loc"][0]) if problem["loc"] else ""
        raise SettingsInvalid(f"{PREFIX}{name.upper()}: {problem['msg']}") from None
