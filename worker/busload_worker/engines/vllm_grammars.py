"""Which structured outputs an engine takes: each grammar is tried aside before vLLM sees it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from busload_shared.request import Request
from busload_shared.result import ErrorCode

from .grammar_guard import NO_TIME, NO_TRIALS, GrammarGuard
from .grammar_lines import Grammar
from .protocol import EngineRow, RowRefused

if TYPE_CHECKING:
    from vllm.v1.engine.llm_engine import LLMEngine

logger = logging.getLogger("busload.engine")

_CODES: dict[str, ErrorCode] = {NO_TIME: "too_heavy", NO_TRIALS: "engine_error"}


def guard_for(engine: LLMEngine, *, timeout_s: float) -> GrammarGuard | None:
    """A guard for this engine's grammars; None where another backend compiles them, with what limits it has."""
    config = engine.vllm_config
    if config.structured_outputs_config.backend != "xgrammar" or config.model_config.skip_tokenizer_init:
        return None
    from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

    manager = engine.engine_core.engine_core.structured_output_manager
    try:
        vocabulary = config.model_config.get_vocab_size()
        backend = XgrammarBackend(config, tokenizer=manager.tokenizer, vocab_size=vocabulary)
        tokenizer = backend.compiler.compile_regex("a").tokenizer_info.serialize_json()
    except Exception as error:  # a tokenizer that xgrammar does not know: structured rows are refused one by one
        logger.warning("no structured outputs with this model: %s", error)
        return None
    manager.backend = backend  # vLLM would make the same at its first grammar
    whitespace = not config.structured_outputs_config.disable_any_whitespace
    return GrammarGuard(tokenizer, any_whitespace=whitespace, timeout_s=timeout_s)


def refusals(guard: GrammarGuard | None, rows: Sequence[EngineRow], *, tick: Callable[[], None]) -> list[RowRefused]:
    """The rows whose grammar the engine must not see."""
    if guard is None:
        return []
    grammars = {row.index: grammar for row in rows if (grammar := grammar_of(row.request)) is not None}
    return [
        RowRefused(
            index=index,
            code=_CODES.get(problem, "invalid_request"),
            message=f"the structured output's grammar is refused: {problem}",
        )
        for index, problem in guard.problems(grammars, tick=tick).items()
    ]


def grammar_of(request: Request) -> Grammar | None:
    """The request's structured output in the form in which vLLM compiles it."""
    if request.json_schema is not None:
        return Grammar(kind="json", text=json.dumps(request.json_schema))
    if request.regex is not None:
        return Grammar(kind="regex", text=request.regex)
    if request.choice is None and request.grammar is None:
        return None
    from vllm.v1.structured_output.utils import choice_as_grammar, grammar_is_likely_lark

    if request.choice is not None:
        return Grammar(kind="ebnf", text=choice_as_grammar(list(request.choice)))
    text = request.grammar or ""
    kind: Literal["lark", "ebnf"] = "lark" if grammar_is_likely_lark(text) else "ebnf"
    return Grammar(kind=kind, text=text)
