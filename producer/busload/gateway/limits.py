"""What a caller's key says of its requests."""

from __future__ import annotations

from busload_shared.request import Request

from ..openai_api import ParameterInvalid
from .keys import Key
from .settings import GatewaySettings


def defaults_for(key: Key, settings: GatewaySettings) -> dict[str, int]:
    """Fields of a request whose body leaves them open."""
    most = settings.max_tokens if key.max_tokens is None else min(settings.max_tokens, key.max_tokens)
    return {"max_tokens": most} if key.is_anonymous else {"max_tokens": most, "priority": key.priority}


def check(request: Request, key: Key) -> None:
    """Raise ParameterInvalid for a request that asks for more than the key allows."""
    if request.priority > key.priority:
        raise ParameterInvalid(f"priority: {key.priority} is the highest this caller may ask for", param="priority")
    if key.max_tokens is not None and request.max_tokens * request.n > key.max_tokens:
        raise ParameterInvalid(
            f"max_tokens: {key.max_tokens} tokens, all samples together, are the most this key may ask for",
            param="max_tokens",
        )


def check_count(prompts: int, settings: GatewaySettings) -> None:
    """Raise ParameterInvalid for a call of more prompts than the gateway takes."""
    if prompts > settings.max_prompts:
        said = f"prompt: {prompts} prompts; {settings.max_prompts} are the most of one call. Send several, or a batch"
        raise ParameterInvalid(said, param="prompt")
