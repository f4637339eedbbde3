"""Who may call: the keys file, read again when it changes. Keys are kept as their SHA-256 only."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import tomllib
from pathlib import Path
from typing import Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from busload_shared.errors import SettingsInvalid
from busload_shared.keys import Keys

from ..openai_api import ErrorDetail, ParameterInvalid, Refusal, refusal
from ..openai_api.errors import retry_after
from .bucket import Bucket
from .refused import Refused

log: Final = logging.getLogger("busload.gateway")

ANONYMOUS = "anonymous"


class Key(BaseModel):
    """One caller. `priority` is what its requests have unless they ask for less; they may not ask for more.

    `requests_per_s` bounds its calls on average and `burst` those at once; None for no bound. `max_tokens` bounds the
    new tokens of one request, all samples together; `max_body_bytes` its body. With `operator` the key opens the
    operations page too.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Not `anonymous`, which is everybody where no keys are needed."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    queue: str | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    requests_per_s: Annotated[float, Field(gt=0)] | None = None
    burst: Annotated[float, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_body_bytes: Annotated[int, Field(ge=1)] | None = None
    operator: bool = False

    @property
    def is_anonymous(self) -> bool:
        """Whether this is everybody, where no keys are needed."""
        return self.name == ANONYMOUS

    @field_validator("queue")
    @classmethod
    def _a_queue(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                Keys(value)
            except SettingsInvalid as error:
                raise ValueError(str(error)) from None
        return value


class KeysFile(BaseModel):
    """The whole file: a list of `[[keys]]`."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")

    keys: tuple[Key, ...] = ()


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a file. Raises SettingsInvalid, which shows nothing of what stands in it."""
    try:
        keys = KeysFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).keys
    except OSError as error:
        raise SettingsInvalid(f"the keys file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsInvalid(f"the keys file {path} is not TOML: {error}") from None
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, problem["loc"]))
        raise SettingsInvalid(f"the keys file {path}: {where}: {problem['msg']}") from None
    if len({key.name for key in keys}) < len(keys) or len({key.sha256 for key in keys}) < len(keys):
        raise SettingsInvalid(f"the keys file {path} has a name or a key twice")
    if any(key.is_anonymous for key in keys):
        raise SettingsInvalid(f"the keys file {path}: no key may be called {ANONYMOUS}")
    return keys


def new_key(name: str) -> tuple[str, Key]:
    """A fresh key, 256 random bits, and its record for the file."""
    secret = "bl-" + secrets.token_urlsafe(32)
    return secret, Key(name=name, sha256=hashlib.sha256(secret.encode()).hexdigest())


class KeyRing:
    """The keys as they are now. Without a file everybody is the anonymous caller."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._by_hash: dict[str, Key] = {}
        self._buckets: dict[str, tuple[Key, Bucket]] = {}
        self._seen: tuple[int, ...] | None = None
        self._anonymous = Key(name=ANONYMOUS, sha256="0" * 64, priority=100)
        if path is not None:
            self._seen = _trace(path)
            self._take(read_keys(path))

    @property
    def is_open(self) -> bool:
        """Whether no key is needed."""
        return self._path is None

    @property
    def keys(self) -> tuple[Key, ...]:
        """All callers there are."""
        return (self._anonymous,) if self.is_open else tuple(self._by_hash.values())

    def queues(self, default: str) -> list[str]:
        """Those that callers use, `default` where a key names none. An operator whose key names none only looks on."""
        return sorted({key.queue or default for key in self.keys if key.queue or not key.operator}) or [default]

    def reload(self) -> bool:
        """Read the file again if it has changed. A broken one is told in the log, and the old keys stay."""
        if self._path is None or (trace := _trace(self._path)) == self._seen:
            return False
        self._seen = trace
        try:
            self._take(read_keys(self._path))
        except SettingsInvalid as error:
            log.error("the old keys stay: %s", error)
            return False
        log.info("the keys file was read again, %d keys", len(self._by_hash))
        return True

    def caller(self, authorization: str | None) -> Key:
        """Who bears this header. Raises Refused with 401."""
        if self._path is None:
            return self._anonymous
        scheme, _, secret = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise _unauthorized("a key is needed: send the header Authorization: Bearer KEY")
        key = self._by_hash.get(hashlib.sha256(secret.strip().encode("utf-8", "surrogatepass")).hexdigest())
        if key is None:
            raise _unauthorized("the key is not known here: ask operations for one")
        return key

    def count(self, key: Key, requests: int = 1, *, counted: int = 0) -> None:
        """So many more requests of this caller, of which `counted` were counted before. Raises Refused with 429 where
        it is too many now, and ParameterInvalid where it always will be."""
        if key.requests_per_s is None:
            return
        known = self._buckets.get(key.name)
        if known is None or known[0] != key:
            burst = max(1.0, key.requests_per_s) if key.burst is None else key.burst
            known = self._buckets[key.name] = (key, Bucket(key.requests_per_s, burst))
        bucket = known[1]
        if requests > bucket.burst:
            said = f"prompt: key {key.name} may send {bucket.burst:g} prompts at once; send fewer in a call"
            raise ParameterInvalid(said, param="prompt")
        if wait_s := bucket.take(requests, taken=counted):
            message = f"key {key.name} may send {key.requests_per_s:g} requests/s; send less, or ask for more"
            detail = ErrorDetail(message=message, type="rate_limit_error", code="rate_limit_exceeded")
            raise Refused(Refusal(429, detail, retry_after(wait_s)))

    def _take(self, keys: tuple[Key, ...]) -> None:
        self._by_hash = {key.sha256: key for key in keys}
        names = {key.name for key in keys}
        self._buckets = {name: kept for name, kept in self._buckets.items() if name in names}


def _trace(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _unauthorized(message: str) -> Refused:
    return Refused(refusal(401, message, type="authentication_error", code="invalid_api_key"))
