"""The list of mutants fits the code and the tests; `make mutants` shows that the tests notice them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ops.mutants import Mutant, Ran, WrongMutant, read_mutants, verdict

ROOT = Path(__file__).parents[2]
MUTANTS = read_mutants(ROOT / "ops" / "mutants.toml")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.change)
def test_a_mutants_text_is_there_once_and_its_tests_exist(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    for test in mutant.tests:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^(async )?def {name.partition('[')[0]}\(", text, re.MULTILINE), test


def test_no_two_mutants_are_the_same() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)


def test_a_failed_test_is_named_and_a_passed_run_is_none() -> None:
    assert verdict(Ran(1, "x\nFAILED tests/a/test_b.py::test_c[a b] - assert 1\n1 failed", 1.0)) == "test_c[a b]"
    assert verdict(Ran(0, "1 passed", 1.0)) == ""


@pytest.mark.parametrize("code", [-9, 2, 3, 4, 5])
def test_a_run_that_could_not_tell_is_no_proof(code: int) -> None:
    with pytest.raises(WrongMutant):
        verdict(Ran(code, "FAILED tests/a/test_b.py::test_c", 1.0))


def test_a_list_with_a_mutant_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mutants.toml"
    words = {"guard": "g", "change": "c", "file": "f", "old": "same", "new": "same"}
    lines = [f"{name} = '{word}'" for name, word in words.items()]
    file.write_text("[[mutant]]\n" + "\n".join(lines) + "\ntests = ['t']\n", encoding="utf-8")
    with pytest.raises(WrongMutant, match="no change"):
        read_mutants(file)
