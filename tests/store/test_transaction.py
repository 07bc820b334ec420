"""Look-ups and changes inside one epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from math import isnan, nan
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.store import Store
from tests.store.samples import COUNTS, changed, code, delta, epoch, filled, reader, row, stored

A, B, C = row("a", 1, word="a", number=1), row("b", 1, word="b", number=2), row("c", 2, word="c", number=3)


def minute(number: int) -> datetime:
    return datetime(2020, 1, 1, 8, number, tzinfo=UTC)


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """A row in which NaN equals NaN."""
    return {k: "NaN" if isinstance(v, float) and isnan(v) else v for k, v in found.items()}


def test_appended_rows_are_found_by_key_by_path_and_all(store: Store) -> None:
    filled(store, [A, B, C])
    transaction = store.begin()
    assert stored(transaction) == {"a": A, "b": B, "c": C}
    assert transaction.lookup("Counts", "_key", pa.array(["c", "nobody", "c"])).read_all().to_pylist() == [C]
    by_path = transaction.lookup("Counts", "_by_word", pa.array([1, 7])).read_all().to_pylist()
    assert sorted(r["_key"] for r in by_path) == ["a", "b"]
    assert transaction.lookup("Counts", "_by_word", pa.array([], pa.int64())).read_all().num_rows == 0
    assert transaction.count("Counts") == 3
    transaction.rollback()


def test_rows_keep_the_order_in_which_they_were_appended(store: Store) -> None:
    keys = [f"k{(i * 7919) % 5000}" for i in range(5000)]
    store.create([COUNTS])
    transaction = store.begin()
    transaction.append("Counts", reader([row(k) for k in keys], cut=700))
    transaction.commit(epoch(1))
    with_reader = store.reader()
    assert with_reader.rows(COUNTS)["_key"].to_pylist() == keys
    with_reader.close()


@pytest.mark.parametrize("count", [999, 1001, 40_000])
def test_many_keys_are_looked_up(store: Store, count: int) -> None:
    filled(store, [row(f"k{i}", i, number=i) for i in range(count)])
    transaction = store.begin()
    wanted = pa.array([*range(0, count, 2), *range(0, count, 2), -5])
    found = transaction.lookup("Counts", "_by_word", wanted).read_all()
    assert sorted(found["number"].to_pylist()) == list(range(0, count, 2))
    texts = pa.array([f"k{i}" for i in range(1, count, 2)])
    assert transaction.lookup("Counts", "_key", texts).read_all().num_rows == len(texts)
    transaction.rollback()


def test_columns_that_start_with_nulls_keep_their_types(store: Store) -> None:
    rows = [row(f"k{i}") for i in range(20_000)] + [row("last", 1, word="w", number=5, share=1.5, at=minute(1))]
    filled(store, rows)
    transaction = store.begin()
    found = transaction.lookup("Counts", None, None).read_all()
    assert found.schema == COUNTS.arrow
    assert found.slice(20_000).to_pylist() == rows[-1:]
    transaction.rollback()


def test_an_empty_table_answers_with_its_columns(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    found = transaction.lookup("Counts", None, None).read_all()
    assert found.schema == COUNTS.arrow
    assert found.num_rows == 0
    transaction.append("Counts", reader([]))
    transaction.apply("Counts", delta([]))
    assert changed(transaction.replace("Counts", None, None, reader([]))) == []
    transaction.commit(epoch(1))


def test_replace_returns_only_what_differs(store: Store) -> None:
    filled(store, [A, B, C])
    transaction = store.begin()
    new = {**B, "number": 20}
    fresh = row("d", 1, word="d")
    answer = transaction.replace("Counts", "_by_word", pa.array([1]), reader([A, new, fresh]))
    assert changed(answer) == [(B, -1), (new, 1), (fresh, 1)]
    assert stored(transaction) == {"a": A, "b": new, "c": C, "d": fresh}
    transaction.commit(epoch(2))


def test_replace_takes_out_keys_without_new_rows(store: Store) -> None:
    filled(store, [A, B, C])
    transaction = store.begin()
    assert changed(transaction.replace("Counts", "_by_word", pa.array([1, 9]), reader([]))) == [(A, -1), (B, -1)]
    assert changed(transaction.replace("Counts", "_by_word", pa.array([1]), reader([]))) == []
    assert stored(transaction) == {"c": C}
    transaction.rollback()


def test_replace_of_everything(store: Store) -> None:
    filled(store, [A, B])
    transaction = store.begin()
    assert changed(transaction.replace("Counts", None, None, reader([B, C], cut=1))) == [(A, -1), (C, 1)]
    assert stored(transaction) == {"b": B, "c": C}
    transaction.rollback()


def test_replace_of_an_empty_table_streams(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    rows = [row(f"k{i:05}", i, share=nan if i % 7 == 0 else i / 3) for i in range(30_000)]
    found = transaction.replace("Counts", "_by_word", pa.array(range(30_000)), reader(rows, cut=1000)).read_all()
    assert found["_weight"].to_pylist() == [1] * 30_000
    assert sum(isnan(s) for s in found["share"].to_pylist()) == len(range(0, 30_000, 7))
    transaction.commit(epoch(1))


def test_a_large_fill_keeps_its_indexes_and_refuses_a_key_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.store.dialects.sqlite_session.FILL_ROWS", 100)
    store.create([COUNTS])
    rows = [row(f"k{i}", i % 10, number=i) for i in range(500)]
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", reader([*rows, rows[3]], cut=60))
    assert code(error.value) == "B7010"
    transaction.rollback()
    transaction = store.begin()
    transaction.append("Counts", reader(rows, cut=60))
    transaction.commit(epoch(1))
    transaction = store.begin()
    assert transaction.lookup("Counts", "_by_word", pa.array([3])).read_all().num_rows == 50
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", reader(rows[:1]))
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_updates_of_single_columns_reach_their_indexes(store: Store) -> None:
    rows = [row(f"k{i:04}", i % 10, word=f"w{i}", number=i, share=float(i), at=minute(1)) for i in range(1500)]
    filled(store, rows)
    transaction = store.begin()
    everything = pa.array(range(20))
    for change in ({"share": nan}, {"at": minute(9)}, {"word": None, "number": 7}, {"_by_word": 11, "share": 0.25}):
        before, rows = rows, [{**r, **change} if i % 2 else r for i, r in enumerate(rows)]
        answer = changed(transaction.replace("Counts", "_by_word", everything, reader(rows)))
        expected = [(r, w) for i in range(1, 1500, 2) for r, w in ((before[i], -1), (rows[i], 1))]
        assert [(comparable(r), w) for r, w in answer] == [(comparable(r), w) for r, w in expected]
        assert [comparable(r) for _, r in sorted(stored(transaction).items())] == [comparable(r) for r in rows]
    assert transaction.lookup("Counts", "_by_word", pa.array([11])).read_all().num_rows == 750
    assert transaction.lookup_range("Counts", "at", minute(8), None).read_all().num_rows == 750
    transaction.commit(epoch(2))


def test_equal_means_equal_in_stored_form(store: Store) -> None:
    old = [row("nan", 1, share=nan), row("null", 1), row("zero", 1, share=0.0), row("text", 1, word="")]
    filled(store, old)
    transaction = store.begin()
    assert changed(transaction.replace("Counts", "_by_word", pa.array([1]), reader(old))) == []
    new = [row("nan", 1), row("null", 1, share=nan), row("zero", 1, share=0.0), row("text", 1)]
    answer = changed(transaction.replace("Counts", "_by_word", pa.array([1]), reader(new)))
    assert [(r["_key"], w) for r, w in answer] == [
        ("nan", -1),
        ("nan", 1),
        ("null", -1),
        ("null", 1),
        ("text", -1),
        ("text", 1),
    ]
    transaction.rollback()


def test_a_row_that_moves_to_another_path_value_is_replaced(store: Store) -> None:
    filled(store, [A])
    transaction = store.begin()
    moved = {**A, "_by_word": 5}
    assert changed(transaction.replace("Counts", "_by_word", pa.array([5]), reader([moved]))) == [(A, -1), (moved, 1)]
    assert transaction.lookup("Counts", "_by_word", pa.array([1])).read_all().num_rows == 0
    assert transaction.lookup("Counts", "_by_word", pa.array([5])).read_all().num_rows == 1
    transaction.rollback()


def test_two_new_rows_of_one_key_are_refused(store: Store) -> None:
    filled(store, [A])
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.replace("Counts", "_by_word", pa.array([1]), reader([A, {**A, "number": 9}]))
    assert code(error.value) == "B7010"
    transaction.rollback()
    transaction = store.begin(chunk_bytes=1)  # row by row
    with pytest.raises(BelvedereError) as error:
        transaction.replace("Counts", "_by_word", pa.array([1]), reader([A, B, {**A, "number": 9}])).read_all()
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_apply_takes_out_and_puts_in_whatever_the_batches(store: Store) -> None:
    filled(store, [A, B, C])
    transaction = store.begin()
    new_a, new_d = {**A, "number": 10}, row("d", 9)
    transaction.apply("Counts", delta([(new_a, 1), (B, -1), (new_d, 1), (A, -1)], cut=1))
    assert stored(transaction) == {"a": new_a, "c": C, "d": new_d}
    transaction.commit(epoch(2))


def test_append_of_a_key_that_is_there_is_refused_and_undone(store: Store) -> None:
    filled(store, [A])
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", reader([B, A]))
    assert code(error.value) == "B7010"
    transaction.rollback()
    transaction = store.begin()
    assert stored(transaction) == {"a": A}
    transaction.rollback()


def test_ranges_are_open_below_and_closed_above(store: Store) -> None:
    filled(store, [row(str(i), at=minute(i)) for i in range(5)] + [row("never")])
    transaction = store.begin()

    def keys(above: Any, up_to: Any) -> list[str]:
        return sorted(transaction.lookup_range("Counts", "at", above, up_to).read_all()["_key"].to_pylist())

    assert keys(minute(1), minute(3)) == ["2", "3"]
    assert keys(None, minute(1)) == ["0", "1"]
    assert keys(minute(3), None) == ["4"]
    assert keys(None, None) == ["0", "1", "2", "3", "4"]
    assert transaction.delete_range("Counts", "at", minute(2)) == 3
    assert transaction.delete_range("Counts", "at", minute(2)) == 0
    assert sorted(stored(transaction)) == ["3", "4", "never"]
    transaction.commit(epoch(2))


def test_looking_up_by_time_does_not_end_the_transaction(store: Store) -> None:
    """Whatever is bound, the epoch's changes are committed together or not at all."""
    filled(store, [row(str(i), 3, at=minute(i), number=i) for i in range(5)])
    transaction = store.begin()
    transaction.append("Counts", reader([row("new", 3, at=minute(7))]))
    for look in (
        lambda: transaction.lookup_range("Counts", "at", minute(1), minute(3)).read_all(),
        lambda: transaction.lookup_span("Counts", "_by_word", 3, "at", minute(1), minute(3)).read_all(),
        lambda: transaction.place("Counts", "_by_word", 3, "at", minute(3), 1, False),
        lambda: transaction.delete_range("Counts", "at", minute(0)),
    ):
        look()
        found = transaction.replace(
            "Counts", "_key", pa.array(["2"]), reader([row("2", 3, at=minute(2), number=len(stored(transaction)))])
        )
        assert found.read_all().num_rows in (0, 2)
        assert stored(transaction)["2"]["number"] == len(stored(transaction))
    transaction.rollback()
    transaction = store.begin()
    assert {k: r["number"] for k, r in stored(transaction).items()} == {str(i): i for i in range(5)}
    transaction.rollback()


def test_spans_are_closed_and_places_are_counted_within_a_key(store: Store) -> None:
    rows = [row(str(i), 3, at=minute(i), number=min(i, 1)) for i in range(5)] + [row("never", 3), row("other", 9, at=minute(2))]
    filled(store, [*rows, row("numbered", 3, number=2)])
    transaction = store.begin()

    def keys(low: Any, high: Any) -> list[str]:
        return sorted(transaction.lookup_span("Counts", "_by_word", 3, "at", low, high).read_all()["_key"].to_pylist())

    assert keys(minute(1), minute(3)) == ["1", "2", "3"]
    assert keys(None, minute(1)) == ["0", "1", "never", "numbered"]
    assert keys(minute(3), None) == ["3", "4"]
    assert keys(None, None) == ["0", "1", "2", "3", "4", "never", "numbered"]
    assert transaction.place("Counts", "_by_word", 3, "at", minute(2), 1, after=False) == minute(1)
    assert transaction.place("Counts", "_by_word", 3, "at", minute(2), 2, after=True) == minute(4)
    assert transaction.place("Counts", "_by_word", 3, "at", minute(2), 3, after=False) is None
    transaction.rollback()


def test_a_reader_that_was_not_read_does_not_hold_the_next_call(store: Store) -> None:
    filled(store, [row(f"k{i}") for i in range(50_000)])
    transaction = store.begin()
    unread = transaction.lookup("Counts", None, None)
    unread.read_next_batch()
    assert transaction.count("Counts") == 50_000
    with pytest.raises(BelvedereError) as error:
        unread.read_all()
    assert code(error.value) == "B7015"
    transaction.commit(epoch(2))


def test_rows_of_an_earlier_delta_outlive_the_statements_that_made_it(store: Store) -> None:
    filled(store, [A])
    transaction = store.begin()
    answer = transaction.replace("Counts", "_by_word", pa.array([1]), reader([]))
    transaction.count("Counts")
    assert changed(answer) == [(A, -1)]
    transaction.rollback()


def test_rows_with_columns_in_another_order_and_of_wider_types(store: Store) -> None:
    store.create([COUNTS])
    rows = pa.table(
        {
            "_by_word": pa.array([1], pa.int32()),
            "_key": pa.array(["a"], pa.large_string()),
            "share": pa.array([1], pa.int32()),
            "at": pa.array([minute(1)], pa.timestamp("ms", "Europe/Berlin")),
            "number": pa.array([1], pa.int16()),
            "word": pa.array(["x"]),
            "unknown": [1],
        }
    )
    transaction = store.begin()
    transaction.append("Counts", rows.to_reader())
    assert stored(transaction) == {"a": row("a", 1, word="x", number=1, share=1.0, at=minute(1))}
    transaction.rollback()


def test_rows_without_a_column_are_refused(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", pa.table({"_key": ["a"]}).to_reader())
    assert code(error.value) == "B7013"
    transaction.rollback()


def test_a_row_without_a_key_is_refused(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    loose = pa.schema([pa.field(f.name, f.type) for f in COUNTS.arrow])
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", pa.Table.from_pylist([{"word": "a", "_by_word": 1}], loose).to_reader())
    assert code(error.value) == "B7011"
    transaction.rollback()


def test_an_unknown_table_is_refused(store: Store) -> None:
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.count("Nowhere")
    assert code(error.value) == "B7014"
    transaction.rollback()


def test_nothing_can_be_done_after_the_end(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    transaction.commit(epoch(1))
    transaction.rollback()
    with pytest.raises(BelvedereError) as error:
        transaction.count("Counts")
    assert code(error.value) == "B7015"
    with pytest.raises(BelvedereError):
        transaction.commit(epoch(2))
