"""OpenAI's HTTP interface in Busload's terms: bodies to requests, results to objects, errors to errors.

Needs the base install only: the HTTP gateway and bulk files both speak it.
"""

from .answers import ChatCompletion, Choice, Completion, as_answer
from .bodies import ENDPOINTS, MOST_PROMPTS, ChatBody, CompletionBody, Endpoint, as_request, as_requests, read_body
from .chunks import as_chunks
from .errors import ErrorBody, ErrorDetail, Refusal, as_refusal, failed, refusal
from .invalid import ParameterInvalid
from .several import joined, placed, used_by

__all__ = [
    "ENDPOINTS",
    "MOST_PROMPTS",
    "ChatBody",
    "ChatCompletion",
    "Choice",
    "Completion",
    "CompletionBody",
    "Endpoint",
    "ErrorBody",
    "ErrorDetail",
    "ParameterInvalid",
    "Refusal",
    "as_answer",
    "as_chunks",
    "as_refusal",
    "as_request",
    "as_requests",
    "failed",
    "joined",
    "placed",
    "read_body",
    "refusal",
    "used_by",
]
