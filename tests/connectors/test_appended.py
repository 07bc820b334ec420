"""Which parts of a growing file are whole lines, and how they are read as files of their own."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from belvedere.connectors import appended_files
from belvedere.connectors.appended_files import Watch, as_files, in_their_files, whole_end
from belvedere.connectors.file_listing import Listing
from belvedere.connectors.run_records import RejectedRow, SourceFile

NOW = datetime(2024, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("block", [3, 1 << 20])
def test_a_part_ends_with_its_last_whole_line(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_files, "BLOCK", block)
    path = tmp_path / "a"
    for text, in_json, in_csv in (
        (b"", 0, 0),
        (b"one", 0, 0),
        (b"one\n", 4, 4),
        (b"one\ntwo", 4, 4),
        (b'a,"x\ny"\nb,"z\n', 13, 8),  # an end of a line within quotes is none
        (b'a,"x ""y"\n1\n', 12, 12),
    ):
        path.write_bytes(text)
        assert whole_end(str(path), 0, len(text), False) == in_json
        assert whole_end(str(path), 0, len(text), True) == in_csv
    monkeypatch.setattr(appended_files, "PART_BYTES", 6)
    path.write_bytes(b"one\ntwo\n" + b"x" * 100 + b"\nend\n")
    assert whole_end(str(path), 0, 113, False) in (4, 8, 113), "a part is not much larger than it has to be"
    assert whole_end(str(path), 8, 113, False) >= 109, "but for one long line"


def test_a_part_is_read_as_a_file_with_the_header(tmp_path: Path) -> None:
    path = tmp_path / "T.csv"
    path.write_bytes(b'"a\nb",c\n1,2\n3,4\nx,6\n')
    whole = SourceFile(str(path), 21, NOW, "T.csv")
    part = replace(whole, length=20, start=12)
    with as_files([whole, part], {"appends": True}) as (first, second):
        assert Path(first.path).read_bytes() == path.read_bytes()[:21]
        assert Path(second.path).read_bytes() == b'"a\nb",c\n3,4\nx,6\n'
        rejected = [
            RejectedRow("T", second.path, 4, "x,6", "no number"),
            RejectedRow("T", first.path, 5, "x,6", "no number"),
        ]
        found = in_their_files(rejected, (first, second), (whole, part), {"appends": True})
        assert [(r.file, r.line) for r in found] == [(str(path), 5), (str(path), 5)]
    assert not Path(second.path).exists()
    with as_files([part], {}) as (same,):
        assert same == part


def watch(folder: Path, appends: bool) -> Watch:
    listing = Listing(str(folder), "T", ())
    found = listing.new_files()
    listing.add(found)
    made = Watch(listing, {"appends": appends}, lambda: found, "T")
    assert made.look(at_once=True) == ([], [])
    return made


def test_what_changes_is_told_once(tmp_path: Path) -> None:
    for name in ("grown", "shorter", "touched", "same"):
        (tmp_path / f"T.{name}.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    found = watch(tmp_path, False)
    (tmp_path / "T.grown.jsonl").write_text('{"a": 1}\n{"a": 2}\n{"a": 3}\n')
    (tmp_path / "T.shorter.jsonl").write_text('{"a": 1}\n')
    os.utime(tmp_path / "T.touched.jsonl", (1, 1))
    parts, reported = found.look(at_once=True)
    assert parts == []
    assert {t.partition(" of ")[0].rpartition("T.")[2]: "appends" in t for t in reported} == {
        "grown.jsonl": True,
        "shorter.jsonl": False,
        "touched.jsonl": False,
    }
    assert found.changed() == {"grown": 1, "replaced": 2}
    assert found.look(at_once=True) == ([], [])


def test_new_lines_are_parts(tmp_path: Path) -> None:
    lines, array, packed = (tmp_path / f"T.{n}" for n in ("1.jsonl", "2.json", "3.csv.gz"))
    lines.write_text('{"a": 1}\n')
    array.write_text('[{"a": 1}]')
    packed.write_bytes(b"x")
    found = watch(tmp_path, True)
    with lines.open("a") as file:
        file.write('{"a": 2}\n{"a"')
    array.write_text('[{"a": 1}, {"a": 2}]')
    parts, reported = found.look(at_once=True)
    assert [(Path(p.path).name, p.start, p.length) for p in parts] == [("T.1.jsonl", 9, 18)]
    assert len(reported) == 1
    assert "T.2.json" in reported[0]
    found.committed(parts)
    assert found.look(at_once=True)[0] == [], "the last line has no end yet"
    with lines.open("a") as file:
        file.write(": 3}\n")
    assert [(p.start, p.length) for p in found.look(at_once=True)[0]] == [(18, 27)]


def test_of_a_new_file_whole_lines_count(tmp_path: Path) -> None:
    (tmp_path / "T.1.jsonl").write_text('{"a": 1}\n{"a"')
    (tmp_path / "T.2.jsonl").write_text('{"a"')
    (tmp_path / "T.3.parquet").write_bytes(b"PAR1")
    listing = Listing(str(tmp_path), "T", ())
    for appends, expected in (
        (True, [("T.1.jsonl", 9), ("T.3.parquet", 4)]),
        (False, [("T.1.jsonl", 13), ("T.2.jsonl", 4), ("T.3.parquet", 4)]),
    ):
        found = Watch(listing, {"appends": appends}, list, "T").first_parts(listing.new_files())
        assert sorted((f.name, f.length) for f in found) == expected
