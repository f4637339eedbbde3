"""What is wrong with a body, and which parameter it is about."""

from __future__ import annotations

from typing import Self

from pydantic import ValidationError

from busload_shared.errors import RequestInvalid
from busload_shared.request import reason


class ParameterInvalid(RequestInvalid):
    """The caller must change the body. `param` names the parameter, None where the body as a whole is meant.

    `code` is `unsupported_parameter`, `unknown_parameter` or `invalid_value`.
    """

    def __init__(self, message: str, *, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code

    @classmethod
    def of(cls, error: ValidationError, names: dict[str, str] | None = None) -> Self:
        """From what validation found. `names` gives the caller's name for a field of ours."""
        place = error.errors(include_url=False, include_input=False, include_context=False)[0]["loc"]
        text, param = reason(error).replace(": Value error, ", ": "), str(place[0]) if place else None
        if param is not None and names and param in names:
            ours, param = param, names[param]
            text = param + text.removeprefix(ours)
        if param is None:
            text = "body" + text.removeprefix("request")
        return cls(text, param=param)
