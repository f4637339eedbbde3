"""What /v1/files and /v1/batches tell, and what stands in their folder."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..openai_api import Endpoint
from ..openai_api.answers import OpenAIObject

Purpose = Literal["batch", "batch_output"]
BatchStatus = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]

OVER: frozenset[BatchStatus] = frozenset({"failed", "completed", "expired", "cancelled"})
"""A batch in one of these changes no more."""


class FileObject(OpenAIObject):
    """A file. `bytes` is its size, `created_at` Unix time in seconds."""

    id: str
    object: Literal["file"] = "file"
    bytes: int
    created_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"] = "processed"


class FileList(OpenAIObject):
    """Files, by the time they came."""

    object: Literal["list"] = "list"
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(OpenAIObject):
    """A file that is gone."""

    id: str
    object: Literal["file"] = "file"
    deleted: Literal[True] = True


class RequestCounts(OpenAIObject):
    """Lines of the input: all that were read, those answered, and those in the error file."""

    total: int = 0
    completed: int = 0
    failed: int = 0


class BatchProblem(OpenAIObject):
    """Why a batch as a whole failed."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class BatchProblems(OpenAIObject):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[BatchProblem]


class BatchObject(OpenAIObject):
    """A batch, as OpenAI has it. Times are Unix seconds, None for what has not happened."""

    id: str
    object: Literal["batch"] = "batch"
    endpoint: str
    errors: BatchProblems | None = None
    input_file_id: str
    completion_window: str
    status: BatchStatus
    output_file_id: str | None = None
    error_file_id: str | None = None
    created_at: int
    in_progress_at: int | None = None
    expires_at: int | None = None
    finalizing_at: int | None = None
    completed_at: int | None = None
    failed_at: int | None = None
    expired_at: int | None = None
    cancelling_at: int | None = None
    cancelled_at: int | None = None
    request_counts: RequestCounts = RequestCounts()
    metadata: dict[str, str] | None = None

    def now(self, status: BatchStatus, at: int, **more: Any) -> BatchObject:
        """The same with another status since `at`."""
        return self.model_copy(update={"status": status, f"{status}_at": at, **more})


class BatchList(OpenAIObject):
    """Batches, the newest first."""

    object: Literal["list"] = "list"
    data: list[BatchObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BatchBody(BaseModel):
    """What to run: a file that was uploaded for the purpose `batch`, all of its lines for one endpoint."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        json_schema_extra={
            "examples": [{"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}]
        },
    )

    input_file_id: str
    endpoint: Endpoint
    completion_window: Literal["24h"]
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]], Field(max_length=16)
        ]
        | None
    ) = None
