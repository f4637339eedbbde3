"""The parts that read: long and broken lines, tables, names, and what was written before. Without Redis."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from busload.bulk.lines import LONGEST_LINE, Format, LineSource
from busload.bulk.reading import Entries
from busload.bulk.written import Job, Names, Written
from busload_shared.errors import SettingsInvalid


def entries(path: Path, kind: Format | None = None) -> dict[int, str]:
    """Each line's reason, empty for a good one."""
    source, job = LineSource(str(path)), Job("j")
    found = list(Entries(source, kind or source.recognise(), job, Written(job)))
    source.close()
    return {entry.number: str(entry.error or "") for entry in found if entry is not None}


def test_a_line_that_is_too_long_is_skipped_and_told(tmp_path: Path) -> None:
    path = tmp_path / "in"
    for length, said in ((LONGEST_LINE * 2, "the line is over"), (LONGEST_LINE - 100, "the limit is")):
        path.write_bytes(b'{"prompt":"' + b"x" * length + b'"}\n{"prompt":"a"}\n')
        told = entries(path, Format.jsonl)
        assert said in told[1]
        assert told[2] == ""


def test_hostile_lines_are_errors_of_their_own(tmp_path: Path) -> None:
    bad = [
        b"\xff\xfe", b"null", b'"text"', b"[" * 5000, b'{"prompt":"\\ud800"}', b'{"prompt":"a\x00"',
        b'{"prompt":"a","metadata":{"a":NaN}}', b'{"prompt":"a","seed":1e999}', b'{"prompt":"a","id":7}',
        b'{"prompt":"a","id":""}',
    ]  # fmt: skip
    path = tmp_path / "in"
    path.write_bytes(b"\n".join([b'{"prompt":"good"}', *bad, b'{"prompt":"good"}']))
    told = entries(path)
    assert [number for number, error in told.items() if not error] == [1, len(bad) + 2]
    assert len(told) == len(bad) + 2


def test_a_table_with_bad_cells_keeps_its_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b'custom_id;prompt\n1;"two\nlines"\n2;\xff\n1;again\n3;"' + b"x" * LONGEST_LINE + b'"\n4;good\n')
    told = entries(path)
    assert {number for number, error in told.items() if not error} == {2, 7}
    assert set(told) == {2, 4, 5, 6, 7}
    assert "an earlier line has the same" in told[5]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", Format.jsonl),
        ("prompt\nx\n", Format.csv),
        ('\n{"prompt": "a"}\n', Format.jsonl),
        ('{"broken\n{"custom_id": "1", "body": {}}\n', Format.openai),
    ],
)
def test_a_file_is_recognised_by_the_first_line_that_tells(tmp_path: Path, text: str, kind: Format) -> None:
    path = tmp_path / "in"
    path.write_text(text, encoding="utf-8")
    source = LineSource(str(path))
    assert source.recognise() is kind
    assert b"".join(line for _, line in source).decode() == text
    source.close()


def test_names_are_remembered_by_the_ten_thousand() -> None:
    names = Names()
    assert all(names.add(f"n{i}") for i in range(20_000))
    assert not any(names.add(f"n{i}") for i in range(20_000))


def test_what_is_written_ends_at_the_last_whole_record() -> None:
    job = Job("j")
    first, digest = job.request_id(1, "0" * 11 + "1"), "0" * 11 + "1"
    for header, record in ((b"", f'{{"id":"{first}","x":"1"}}\n'), (b"id\n", f'{first},"a\n""b"\n')):
        written = Written(job)
        whole = header + record.encode()
        for cut in range(len(whole) + 1):
            end = Written(job).read(io.BytesIO(whole[:cut]), "f", failed=False, header=header)
            assert end == (len(whole) if cut == len(whole) else len(header) if cut >= len(header) else 0)
        written.read(io.BytesIO(whole), "f", failed=True, header=header)
        assert written.holds(1, digest)
        assert not written.holds(2, digest)
        assert (written.last, written.failed, written.succeeded) == (1, 1, 0)
        with pytest.raises(SettingsInvalid, match="line 1 of the input was another"):
            written.holds(1, "0" * 12)
    with pytest.raises(SettingsInvalid, match="this job has not written"):
        written.read(io.BytesIO(b"other\n"), "f", failed=False, header=b"")
