"""The messages of a chat body. Text only."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict, Field, JsonValue

from busload_shared.request import ChatMessage, Message

from .invalid import ParameterInvalid

Role = Literal["system", "developer", "user", "assistant"]

_EMPTY: Final[tuple[JsonValue, ...]] = (None, [], "")
_HARMLESS: Final = frozenset({"refusal", "annotations", "reasoning", "reasoning_content"})
"""What an assistant's message of an earlier answer may bear when it is handed back."""


class ContentPart(Message):
    """A piece of a message; only those of type `text` can be taken."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class BodyMessage(Message):
    """One turn of the chat. `content` is text, or parts of type `text`, which are joined by line breaks."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="allow")

    role: Role
    content: str | Annotated[list[ContentPart], Field(min_length=1, max_length=1024, fail_fast=True)]
    name: Annotated[str, Field(max_length=256)] | None = None

    def as_message(self, position: int) -> ChatMessage:
        """As a request has it; a developer's message is a system's. Raises ParameterInvalid."""
        if self.model_extra:
            self._look_at_the_rest(position)
        content = self.content
        if not isinstance(content, str):
            content = "\n".join(_text(part, f"messages.{position}.content.{at}") for at, part in enumerate(content))
        role = "system" if self.role == "developer" else self.role
        return ChatMessage(role=role, content=content, name=self.name)

    def _look_at_the_rest(self, position: int) -> None:
        for name, value in (self.model_extra or {}).items():
            if name not in _HARMLESS and value not in _EMPTY:
                raise ParameterInvalid(
                    f"messages.{position}.{name[:64]!r} cannot be taken: messages hold role, content and name; "
                    "tools, functions and audio are not supported",
                    param="messages",
                    code="unsupported_parameter",
                )


def _text(part: ContentPart, place: str) -> str:
    if part.type != "text":
        raise ParameterInvalid(
            f"{place}.type: only parts of type 'text' are supported, not {part.type[:64]!r}",
            param="messages",
            code="unsupported_parameter",
        )
    if part.text is None:
        raise ParameterInvalid(f"{place}.text: Field required", param="messages")
    return part.text
