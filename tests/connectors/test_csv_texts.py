"""The text of a record of CSV can be split into its fields again, whatever is in them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from belvedere.connectors.reading.text_records import FIELDS, TEXT, csv_fields, csv_records

FIELD = st.text(st.sampled_from('ab,;"\n\r\t é\u2028'), max_size=5)


def records_of(path: Path, delimiter: str) -> list[tuple[str, list[str]]]:
    """The records of a file: the text that is stored of one, and its fields."""
    batches = csv_records(str(path), "a", delimiter, skip=False)
    return [(r[TEXT], r[FIELDS]) for batch in batches for r in batch.to_pylist()]


@settings(max_examples=200, deadline=None)
@given(
    records=st.lists(st.lists(FIELD, min_size=1, max_size=4), min_size=1, max_size=4), delimiter=st.sampled_from(",;\t")
)
def test_each_record_is_split_again(
    records: list[list[str]], delimiter: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, delimiter=delimiter).writerows(records)
    read = records_of(path, delimiter)
    assert [f for _, f in read] == records
    assert [csv_fields(text, delimiter) for text, _ in read] == records


def test_a_plain_record_is_stored_as_it_was_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('x, y,\n"q, r",2,3\n', encoding="utf-8")
    texts = [text for text, _ in records_of(tmp_path / "a.csv", ",")]
    assert texts == ["x, y,", '"q, r",2,3']


def test_what_is_not_one_record_has_no_fields() -> None:
    assert [csv_fields(t, ",") for t in ("", "a\nb", '"cut', 'a,"b" c')] == [[], [], [], []]
