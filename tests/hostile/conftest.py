"""A queue with real workers on a real Redis, as tests/worker has it."""

from tests.worker.conftest import depot, request_of  # noqa: F401
