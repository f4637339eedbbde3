"""Turn SmolLM2's GGUF file into a Hugging Face folder that vLLM loads.

Needs gguf, numpy and tokenizers only: by hand it takes a quarter of the time that loading and saving
through transformers takes, and imports no torch. It knows what SmolLM2 needs, a Llama with tied embeddings
and a byte-level BPE, and refuses any other model rather than writing a folder that answers nonsense.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from busload_shared.errors import EngineStartFailed

Progress = Callable[[int, int], None]
"""Called with tensors done and tensors in all."""

_LAYER_PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_PARTS = {"token_embd": "embed_tokens", "output_norm": "norm"}
_SPECIAL_TOKEN = 3  # GGUF's token type for control tokens


@dataclass(frozen=True)
class _Gguf:
    """A GGUF file opened for reading, with its metadata by key."""

    reader: Any

    def __getitem__(self, key: str) -> Any:
        return self._field(key).contents()

    def _field(self, key: str) -> Any:
        field = self.reader.fields.get(key)
        if field is None:
            raise EngineStartFailed(f"the GGUF file has no {key}, so it is not SmolLM2. Give another model.")
        return field

    def llama(self, key: str) -> Any:
        return self["llama." + key]

    def token(self, name: str) -> str:
        """The text of a token that the metadata names by id, such as `eos`."""
        text: str = self._field("tokenizer.ggml.tokens").contents(self[f"tokenizer.ggml.{name}_token_id"])
        return text


def convert(source: Path, folder: Path, *, progress: Progress) -> None:
    """Write weights, configuration and tokenizer of the GGUF file `source` into the existing `folder`.

    Raises EngineStartFailed if the file holds another kind of model.
    """
    from gguf import GGUFReader

    model = _Gguf(GGUFReader(source))
    expected = ("llama", "gpt2", "smollm")
    found = (model["general.architecture"], model["tokenizer.ggml.model"], model["tokenizer.ggml.pre"])
    if found != expected:
        raise EngineStartFailed(f"{source} is {found}; only {expected} can be converted. Give another model.")
    _write_weights(model, folder / "model.safetensors", progress)
    _write_tokenizer(model, folder)
    _write_json(folder / "config.json", _config(model))
    _write_json(folder / "generation_config.json", _token_ids(model))
    _write_json(folder / "tokenizer_config.json", _tokenizer_config(model))


def _write_weights(model: _Gguf, path: Path, progress: Progress) -> None:
    """Write bf16 safetensors: a length, a JSON header with each tensor's place, then the data."""
    tensors = [(_hf_name(tensor.name), tensor) for tensor in model.reader.tensors]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors:
        start, end = end, end + 2 * int(tensor.n_elements)
        shape = [int(size) for size in reversed(tensor.shape)]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for done, data in enumerate(_bf16_data(model), start=1):
            file.write(data)
            progress(done, len(tensors))
        file.flush()
        os.fsync(file.fileno())


def _bf16_data(model: _Gguf) -> Iterator[bytes]:
    """Each tensor's bytes in bf16, rounded to nearest, ties to even, as torch rounds."""
    import numpy
    from gguf.quants import dequantize

    heads = {"attn_q": model.llama("attention.head_count"), "attn_k": model.llama("attention.head_count_kv")}
    for tensor in model.reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            weights = _undo_rope_permutation(weights, heads[part])
        bits = numpy.ascontiguousarray(weights, dtype=numpy.float32).view(numpy.uint32)
        yield ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes()


def _undo_rope_permutation(weights: Any, heads: int) -> Any:
    """GGUF interleaves the two halves of each head's rotary dimensions; Hugging Face keeps them apart."""
    rows, columns = weights.shape
    return weights.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _hf_name(name: str) -> str:
    """`blk.7.attn_q.weight` -> `model.layers.7.self_attn.q_proj.weight`."""
    match name.split("."):
        case ["blk", layer, part, "weight"] if part in _LAYER_PARTS:
            return f"model.layers.{layer}.{_LAYER_PARTS[part]}.weight"
        case [part, "weight"] if part in _TOP_PARTS:
            return f"model.{_TOP_PARTS[part]}.weight"
    raise EngineStartFailed(f"the GGUF file has a tensor {name}, so it is not SmolLM2. Give another model.")


def _write_tokenizer(model: _Gguf, folder: Path) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = model["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in model["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    # What the pre-tokenizer type `smollm` means: digits alone, then GPT-2's split.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types = model["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, types, strict=True) if kind == _SPECIAL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    tokenizer.save(str(folder / "tokenizer.json"))


def _tokenizer_config(model: _Gguf) -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.llama("context_length"),
        "bos_token": model.token("bos"),
        "eos_token": model.token("eos"),
        "pad_token": model.token("padding"),
        "unk_token": model.token("unknown"),
        "chat_template": model["tokenizer.chat_template"],
    }


def _config(model: _Gguf) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": model.llama("embedding_length"),
        "intermediate_size": model.llama("feed_forward_length"),
        "num_hidden_layers": model.llama("block_count"),
        "num_attention_heads": model.llama("attention.head_count"),
        "num_key_value_heads": model.llama("attention.head_count_kv"),
        "head_dim": model.llama("rope.dimension_count"),
        "max_position_embeddings": model.llama("context_length"),
        # GGUF keeps these two as 32-bit floats; seven digits restore what was written.
        "rms_norm_eps": float(f"{model.llama('attention.layer_norm_rms_epsilon'):.6e}"),
        "rope_theta": float(f"{model.llama('rope.freq_base'):.6e}"),
        "vocab_size": model.llama("vocab_size"),
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "bfloat16",
        **_token_ids(model),
    }


def _token_ids(model: _Gguf) -> dict[str, Any]:
    return {
        "bos_token_id": model["tokenizer.ggml.bos_token_id"],
        "eos_token_id": model["tokenizer.ggml.eos_token_id"],
        "pad_token_id": model["tokenizer.ggml.padding_token_id"],
    }


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
