"""The vLLM engine's settings, and how they become vLLM's own arguments. Imports vLLM only when called."""

from __future__ import annotations

import difflib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, JsonValue

from busload_shared.errors import EngineStartFailed
from busload_shared.request import Message

if TYPE_CHECKING:
    from vllm.engine.arg_utils import EngineArgs

_OURS = {
    "model": "BUSLOAD_MODEL names the model",
    "disable_log_stats": "the proof that a batch ran as one unit needs vLLM's statistics",
    "data_parallel_size": "start one worker for each replica instead",
}
"""Options that would undo what the engine promises, and what to do instead."""

_FORCED = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
_DEFAULTS = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Without a bound oneDNN keeps one compiled kernel for every shape it ever saw: 650 MB after 840 batches.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
    # Threads that spin at a barrier starve the one they wait for when a core is shared: 10 times slower, measured.
    "OMP_WAIT_POLICY": "PASSIVE",
}


class VllmSettings(Message):
    """What the engine needs to know. `options` go to vLLM's EngineArgs; texts among them are read as JSON."""

    model: Annotated[str, Field(min_length=1)]
    max_batch_size: Annotated[int, Field(ge=1)]
    options: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    grammar_timeout_s: Annotated[float, Field(gt=0)] = 5.0
    """Processor time that a structured output may need to compile; a slower one is refused alone."""


def prepare_environment() -> None:
    """Set what vLLM and its libraries read when they are imported: call it before that."""
    os.environ.update(_FORCED)
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.environ.setdefault("TRANSFORMERS_OFFLINE", os.environ["HF_HUB_OFFLINE"])


def check_settings(settings: VllmSettings) -> None:
    """Refuse what is wrong whatever vLLM says, before half a minute of imports. Raises EngineStartFailed."""
    model = settings.model
    looks_local = model.startswith(("/", ".", "~")) or model.count("/") > 1
    if looks_local and not Path(model).expanduser().exists():
        raise EngineStartFailed(f"there is no model folder {model}; set BUSLOAD_MODEL=/path/to/the/folder")
    for option in settings.options.keys() & _OURS.keys():
        raise EngineStartFailed(f"{env_name(option)} cannot be set: {_OURS[option]}")
    seats = _read(settings.options.get("max_num_seqs"), "int")
    if isinstance(seats, int) and seats < settings.max_batch_size:
        raise EngineStartFailed(
            f"BUSLOAD_VLLM_MAX_NUM_SEQS={seats} is under BUSLOAD_MAX_BATCH_SIZE={settings.max_batch_size}: a full "
            "batch would not run as one; remove the first or lower the second"
        )


def env_name(option: str) -> str:
    """The variable that sets a vLLM option."""
    return f"BUSLOAD_VLLM_{option.upper()}"


def checked_options(options: Mapping[str, JsonValue], known: Mapping[str, str]) -> dict[str, Any]:
    """The options as vLLM takes them. `known` maps an option to its type's text.

    Raises EngineStartFailed on one that vLLM has not, with those that look like it.
    """
    checked = {}
    for option, value in options.items():
        if option not in known:
            close = [env_name(name) for name in difflib.get_close_matches(option, known)]
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise EngineStartFailed(f"{env_name(option)}: vLLM has no option {option!r}{hint}")
        checked[option] = _read(value, known[option])
    return checked


def _read(value: JsonValue, type_text: str) -> Any:
    """A text that came through the environment, read as JSON where the option is not a plain text."""
    wants_more = any(word in type_text for word in ("int", "float", "bool", "dict", "list", "Config"))
    if not isinstance(value, str) or not wants_more:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _cpu_dtype() -> dict[str, str]:
    """float32 where the CPU does bfloat16 in software only: 6 times as fast there (measured), at twice the
    memory."""
    import torch

    slow = platform.machine() == "x86_64" and not torch.cpu._is_avx512_bf16_supported()
    return {"dtype": "float32"} if slow else {}


def _structured_outputs(given: Any) -> Any:
    """One backend for all: with vLLM's "auto" the first request that needs another one decides for all after it.

    Without white space between JSON's parts: free to write any, a small model may go on with it to its last token.
    """
    from vllm.config import StructuredOutputsConfig

    if given is not None and not isinstance(given, dict):
        raise EngineStartFailed(f"{env_name('structured_outputs_config')}: write a JSON object")
    chosen: dict[str, Any] = {"backend": "xgrammar"} | (given or {})
    if chosen["backend"] in ("xgrammar", "guidance"):
        chosen.setdefault("disable_any_whitespace", True)
    return StructuredOutputsConfig(**chosen)


def engine_args(settings: VllmSettings) -> EngineArgs:
    """vLLM's arguments for strictly one batch at a time, all its rows admitted in one step."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform

    known = {field.name: str(field.type) for field in fields(EngineArgs)}
    given = checked_options(settings.options, known)
    chosen: dict[str, Any] = {
        "max_num_seqs": settings.max_batch_size,
        "enable_chunked_prefill": True,
        "async_scheduling": False,
    }
    if current_platform.is_cpu():
        chosen |= {"enforce_eager": True} | _cpu_dtype()
    chosen |= given
    chosen["structured_outputs_config"] = _structured_outputs(given.get("structured_outputs_config"))
    args = EngineArgs(model=os.path.expanduser(settings.model), **chosen, disable_log_stats=False)
    if current_platform.is_cpu() and "max_num_batched_tokens" not in given:
        # Prompts of any length enter in one step. On a GPU this number sizes the activations: vLLM's own stands.
        args.max_num_batched_tokens = args.max_num_seqs * args.create_model_config().max_model_len
    return args
