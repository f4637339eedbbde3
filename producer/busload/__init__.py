"""Busload's client: submit LLM requests to a Redis queue and wait for their results.

>>> from busload import Client
>>> with Client() as client:
...     print(client.generate(prompt="The capital of France is", max_tokens=8).text)
"""

from importlib.metadata import version as _version

from busload_shared.errors import (
    BusloadError,
    BusloadUnavailable,
    DeadlineUnmeetable,
    NotReplicated,
    QueueFull,
    RequestInvalid,
    RequestUnknown,
    ResultExpired,
    ResultTimeout,
    SettingsInvalid,
)
from busload_shared.replies import QueueInfo, RequestStatus, WorkerInfo
from busload_shared.request import ChatMessage, Request
from busload_shared.result import (
    BatchInfo,
    Output,
    Proof,
    Result,
    ResultError,
    Timing,
    TokenLogprob,
    Usage,
)

from .async_client import AsyncClient
from .bulk.outcome import Outcome
from .client import Client
from .sending import Submission

__version__ = _version("busload")

__all__ = [
    "AsyncClient",
    "BatchInfo",
    "BusloadError",
    "BusloadUnavailable",
    "ChatMessage",
    "Client",
    "DeadlineUnmeetable",
    "NotReplicated",
    "Outcome",
    "Output",
    "Proof",
    "QueueFull",
    "QueueInfo",
    "Request",
    "RequestInvalid",
    "RequestStatus",
    "RequestUnknown",
    "Result",
    "ResultError",
    "ResultExpired",
    "ResultTimeout",
    "SettingsInvalid",
    "Submission",
    "Timing",
    "TokenLogprob",
    "Usage",
    "WorkerInfo",
    "__version__",
]
