"""Look-ups and changes inside one epoch."""

from __future__ import annotations

import random
import time
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from math import isnan, nan
from typing import Any

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.store import Store, open_store
from belvedere.store.dialects import dialect_of
from belvedere.store.dialects.faults import is_unreachable
from belvedere.store.layout import Layout
from belvedere.store.protocol import CHUNK_BYTES
from belvedere.store.write.rows_by_tasks import COPIED
from tests.depth import at_night
from tests.store.samples import COUNTS, NUMBERED, code, delta, epoch, filled, numbered, reader, row, stored

A, B, C = row("a", word="a", number=1), row("b", word="b", number=2), row("c", word="c", number=3)


def minute(number: int) -> datetime:
    return datetime(2020, 1, 1, 8, number, tzinfo=UTC)


def comparable(found: dict[str, Any]) -> dict[str, Any]:
    """A row in which NaN equals NaN."""
    return {k: "NaN" if isinstance(v, float) and isnan(v) else v for k, v in found.items()}


def test_appended_rows_are_found_by_key_and_all(store: Store) -> None:
    filled(store, [A, B, C])
    transaction = store.begin()
    assert stored(transaction) == {"a": A, "b": B, "c": C}
    assert transaction.lookup("Counts", pa.array(["c", "nobody", "c"])).read_all().to_pylist() == [C]
    assert transaction.lookup("Counts", pa.array([], pa.string())).read_all().num_rows == 0
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
    filled(store, [row(f"k{i}", number=i) for i in range(count)])
    transaction = store.begin()
    requested = [*range(0, count, 2), *range(0, count, 2), -5]
    found = transaction.lookup("Counts", pa.array([f"k{i}" for i in requested])).read_all()
    assert sorted(found["number"].to_pylist()) == list(range(0, count, 2))
    transaction.rollback()


@pytest.mark.parametrize("count", [3, 1001, 60_000])
def test_rows_of_a_whole_number_are_found_by_it(store: Store, count: int) -> None:
    """No text lies beside the number; what changes many of them finds them all the same."""
    filled(store, [numbered(str(i), number=i) for i in range(count)], table=NUMBERED)
    layout = Layout(dialect_of(store.url), NUMBERED)
    assert layout.columns == ("ID", "word", "number", "share", "at")
    transaction = store.begin()
    requested = pa.array([str(i) for i in range(1, count, 2)])
    found = transaction.lookup("Numbered", requested).read_all()
    assert sorted(found["_key"].to_pylist()) == sorted(requested.to_pylist())
    changes = [
        (r, w) for i in range(count) for r, w in ((numbered(str(i), number=i), -1), (numbered(str(i), number=-i), 1))
    ]
    gone = [(numbered(str(i)), -1) for i in range(0, count, 2)]
    transaction.apply("Numbered", delta(changes, NUMBERED))
    transaction.apply("Numbered", delta(gone, NUMBERED))
    transaction.commit(epoch(2))
    with_reader = store.reader()
    rows = sorted(with_reader.rows(NUMBERED).to_pylist(), key=lambda r: r["ID"])
    assert rows == [numbered(str(i), number=-i) for i in range(1, count, 2)]
    with_reader.close()


def copies(store: Store) -> list[str]:
    """The staging tables that are there."""
    found = store.reader()
    try:
        sql = "SELECT tablename FROM pg_tables WHERE tablename LIKE '%copied%'"
        return [name for (name,) in found.execute(sql)] if store.dialect == "postgres" else []
    finally:
        found.close()


def test_rows_that_other_processes_put_in(store: Store) -> None:
    """A task that was run twice counts once; a rollback leaves nothing, and what a killed run left goes with the next
    one's first copy."""
    parts = [[row(f"{part}-{i}", number=i, share=nan, word="ü\0") for i in range(500)] for part in range(3)]

    def put(task: Any) -> pa.Table:
        for part in parts:
            list(task(reader(part)))  # tries whose answers were lost
        return pa.Table.from_batches([b for part in parts for b in task(reader(part, cut=100))])

    filled(store, [A])
    transaction = store.begin()
    take = transaction.append_apart(COUNTS, put, 1500)
    assert (take is not None) is (store.dialect == "postgres")
    (take or (lambda: transaction.append("Counts", reader([r for part in parts for r in part]))))()
    transaction.rollback()
    assert copies(store) == []
    killed = open_store(store.url)
    killed.begin().append_apart(COUNTS, put, 1500)
    killed._session.close()  # type: ignore[attr-defined]
    assert len(copies(store)) == (take is not None)
    again = open_store(store.url)
    transaction = again.begin()
    take = transaction.append_apart(COUNTS, put, 1500)
    (take or (lambda: transaction.append("Counts", reader([r for part in parts for r in part]))))()
    transaction.commit(epoch(2))
    assert copies(again) == []
    transaction = again.begin()
    expected = {r["_key"]: comparable(r) for r in (A, *(r for part in parts for r in part))}
    assert {k: comparable(r) for k, r in stored(transaction).items()} == expected
    transaction.rollback()
    again.close()


@pytest.mark.parametrize("seed", [1, *at_night([(n,) for n in range(2, 12)])])
def test_changes_that_other_processes_put_in(store: Store, seed: int) -> None:
    """Random deltas, in any parts and with tries that do not count, are those that this process applies."""
    chance, table = random.Random(seed), dict[str, dict[str, Any]]()
    for number in range(1, 6):
        changed = [f"k{chance.randrange(60)}" for _ in range(40)]
        changes = list[tuple[dict[str, Any], int]]()
        for key in dict.fromkeys(changed):
            share, word = chance.choice([nan, 0.5, None]), chance.choice(["ü\0", "", None])
            came = row(key, number=number, share=share, word=word)
            changes += [(table.pop(key), -1)] if key in table else []
            if chance.random() < 0.7:
                table[key] = came
                changes.append((came, 1))
        chance.shuffle(changes)
        cuts = sorted(chance.choices(range(len(changes) + 1), k=2))
        parts = [changes[: cuts[0]], changes[cuts[0] : cuts[1]], changes[cuts[1] :]]
        transaction = store.begin()
        if number == 1:
            store.create([COUNTS])
        take = transaction.apply_apart(COUNTS, partial(staged, parts), len(changes))
        assert (take is not None) is (store.dialect == "postgres")
        ordered = sorted(changes, key=lambda change: change[1])
        (take or partial(transaction.apply, "Counts", delta(ordered)))()
        assert transaction.gained("Counts") == sum(weight for _, weight in changes)
        transaction.commit(epoch(number))
        transaction = store.begin()
        assert {k: comparable(r) for k, r in stored(transaction).items()} == {
            k: comparable(r) for k, r in table.items()
        }
        transaction.rollback()
    assert copies(store) == []


def staged(parts: list[list[tuple[dict[str, Any], int]]], task: Any) -> pa.Table:
    """What tasks give that bring these parts of a delta; each has a try before whose answer was lost."""
    for part in parts:
        list(task(iter(delta(part))))
    found = [b for part in parts for b in task(iter(delta(part)))]
    return pa.Table.from_batches(found) if found else COPIED.empty_table()


def test_a_new_row_of_a_known_key_is_refused_from_other_processes_too(store: Store) -> None:
    filled(store, [A])
    transaction = store.begin()
    take = transaction.apply_apart(COUNTS, partial(staged, [[(A, 1)]]), 1)
    with pytest.raises(BelvedereError) as error:
        (take or (lambda: transaction.apply("Counts", delta([(A, 1)]))))()
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_processes_that_do_not_reach_the_database(store: Store) -> None:
    filled(store, [A])

    def put(task: Any) -> pa.Table:
        raise OSError("no route to host")

    for number in (2, 3):
        transaction = store.begin()
        assert transaction.append_apart(COUNTS, put, 1) is None
        assert transaction.apply_apart(COUNTS, put, 1) is None
        transaction.append("Counts", reader([row(f"n{number}")]))
        transaction.commit(epoch(number))
    transaction = store.begin()
    assert stored(transaction).keys() == {"a", "n2", "n3"}
    transaction.rollback()


@pytest.mark.parametrize(
    ("error", "unreachable"),
    [
        (ConnectionRefusedError("refused"), True),
        (RuntimeError("BelvedereError: B7005: the Postgres server cannot be reached"), True),
        (RuntimeError("ModuleNotFoundError: No module named 'adbc_driver_postgresql'"), True),
        (RuntimeError("ExecutorLostFailure (executor 3 exited)"), False),
        (RuntimeError("BelvedereError: B7088: a value is out of Postgres' range"), False),
    ],
)
def test_which_errors_say_that_tasks_do_not_reach_the_database(error: Exception, unreachable: bool) -> None:
    assert is_unreachable(error) is unreachable


def test_a_lost_task_costs_one_epoch(store: Store) -> None:
    """The table that it was to fill is dropped, and the next rows go to tasks again."""
    filled(store, [A])

    def put(task: Any) -> pa.Table:
        list(task(reader([B])))
        raise RuntimeError("ExecutorLostFailure (executor 3 exited)")

    transaction = store.begin()
    assert transaction.append_apart(COUNTS, put, 1) is None
    assert copies(store) == []
    transaction.rollback()
    transaction = store.begin()
    take = transaction.append_apart(COUNTS, partial(staged_rows, [C]), 1)
    unused = transaction.append_apart(COUNTS, partial(staged_rows, [B]), 1)
    assert (take is not None) is (unused is not None) is (store.dialect == "postgres")
    (take or (lambda: transaction.append("Counts", reader([C]))))()
    transaction.commit(epoch(2))
    assert copies(store) == []
    transaction = store.begin()
    assert stored(transaction).keys() == {"a", "c"}
    transaction.rollback()


@pytest.mark.postgres
def test_a_run_that_lost_its_lease_drops_no_table_of_the_new_owner(postgres_url: str) -> None:
    with closing(open_store(postgres_url)) as old, closing(open_store(postgres_url)) as new:
        filled(old, [A])
        old.acquire("suspended", 0.001)
        suspended = old.begin()
        time.sleep(0.01)
        new.acquire("new", 60)
        new._tables.load()  # type: ignore[attr-defined]
        transaction = new.begin()
        take = transaction.append_apart(COUNTS, partial(staged_rows, [B]), 1)
        with pytest.raises(BelvedereError, match="B7007"):
            suspended.append_apart(COUNTS, partial(staged_rows, [C]), 1)
        suspended.rollback()
        assert take is not None
        take()
        transaction.commit(epoch(2))
        transaction = new.begin()
        assert stored(transaction).keys() == {"a", "b"}
        transaction.rollback()


def staged_rows(rows: list[dict[str, Any]], task: Any) -> pa.Table:
    return pa.Table.from_batches(task(reader(rows)))


def test_columns_that_start_with_nulls_keep_their_types(store: Store) -> None:
    rows = [row(f"k{i}") for i in range(20_000)] + [row("last", word="w", number=5, share=1.5, at=minute(1))]
    filled(store, rows)
    transaction = store.begin()
    found = transaction.lookup("Counts").read_all()
    assert found.schema == COUNTS.arrow
    assert found.slice(20_000).to_pylist() == rows[-1:]
    transaction.rollback()


def test_an_empty_table_answers_with_its_columns(store: Store) -> None:
    store.create([COUNTS])
    transaction = store.begin()
    found = transaction.lookup("Counts").read_all()
    assert found.schema == COUNTS.arrow
    assert found.num_rows == 0
    transaction.append("Counts", reader([]))
    transaction.apply("Counts", delta([]))
    transaction.commit(epoch(1))


@pytest.mark.parametrize("fill_rows", [100, 100_000])
def test_a_delta_fills_an_empty_table(store: Store, monkeypatch: pytest.MonkeyPatch, fill_rows: int) -> None:
    monkeypatch.setattr("belvedere.store.dialects.sqlite.sqlite_session.FILL_ROWS", fill_rows)
    store.create([COUNTS])
    rows = [row(f"k{i:05}", number=i, share=nan if i % 7 == 0 else i / 3, at=minute(i % 50)) for i in range(30_000)]
    transaction = store.begin()
    transaction.apply("Counts", delta([(row("nobody"), -1), *((r, 1) for r in rows)], cut=1000))
    found = stored(transaction)
    assert {k: comparable(r) for k, r in found.items()} == {r["_key"]: comparable(r) for r in rows}
    transaction.commit(epoch(1))
    transaction = store.begin()
    assert transaction.lookup_range("Counts", "at", minute(48), None).read_all().num_rows == 600
    with pytest.raises(BelvedereError) as error:
        transaction.apply("Counts", delta([(rows[0], 1)]))
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_a_large_fill_keeps_its_indexes_and_refuses_a_key_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.store.dialects.sqlite.sqlite_session.FILL_ROWS", 100)
    store.create([COUNTS])
    rows = [row(f"k{i}", number=i, at=minute(i % 10)) for i in range(500)]
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", reader([*rows, rows[3]], cut=60))
    assert code(error.value) == "B7010"
    transaction.rollback()
    transaction = store.begin()
    transaction.append("Counts", reader(rows, cut=60))
    transaction.commit(epoch(1))
    transaction = store.begin()
    assert transaction.lookup_range("Counts", "at", minute(2), minute(3)).read_all().num_rows == 50
    with pytest.raises(BelvedereError) as error:
        transaction.append("Counts", reader(rows[:1]))
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_changes_of_many_rows_reach_their_indexes(store: Store) -> None:
    rows = [row(f"k{i:04}", word=f"w{i}", number=i, share=float(i), at=minute(1)) for i in range(3000)]
    filled(store, rows)
    transaction = store.begin()
    for change in ({"share": nan}, {"at": minute(9)}, {"word": None, "number": 7}, {"share": 0.25}):
        before, rows = rows, [{**r, **change} if i % 2 else r for i, r in enumerate(rows)]
        changes = [(r, w) for i in reversed(range(1, 3000, 2)) for r, w in ((before[i], -1), (rows[i], 1))]
        transaction.apply("Counts", delta(changes, cut=900))
        assert [comparable(r) for _, r in sorted(stored(transaction).items())] == [comparable(r) for r in rows]
    assert transaction.lookup_range("Counts", "at", minute(8), None).read_all().num_rows == 1500
    transaction.commit(epoch(2))


def test_apply_takes_out_and_puts_in_whatever_the_batches(store: Store) -> None:
    filled(store, [A, B, C])
    new_a, new_d = {**A, "number": 10}, row("d")
    for chunk in (1, CHUNK_BYTES):  # row by row, and at once
        transaction = store.begin(chunk)
        transaction.apply("Counts", delta([(A, -1), (B, -1), (new_a, 1), (new_d, 1)], cut=1))
        assert stored(transaction) == {"a": new_a, "c": C, "d": new_d}
        transaction.rollback()
    transaction = store.begin()
    with pytest.raises(BelvedereError) as error:
        transaction.apply("Counts", delta([(B, -1), ({**C, "number": 9}, 1)]))
    assert code(error.value) == "B7010"
    transaction.rollback()


def test_rows_of_a_large_delta_lie_in_the_order_of_the_key(store: Store) -> None:
    filled(store, [A])
    keys = [f"k{(i * 7919) % 5000:04}" for i in range(5000)]
    transaction = store.begin()
    transaction.apply("Counts", delta([(row(k), 1) for k in keys], cut=700))
    transaction.commit(epoch(2))
    with_reader = store.reader()
    assert with_reader.rows(COUNTS)["_key"].to_pylist() == ["a", *sorted(keys)]
    with_reader.close()


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


def test_a_table_is_cleared_and_filled_again_in_one_transaction(store: Store) -> None:
    filled(store, [row(str(i), at=minute(i), number=i) for i in range(5)])
    transaction = store.begin()
    transaction.clear("Counts")
    assert stored(transaction) == {}
    transaction.append("Counts", reader([row("2", number=7)]))
    transaction.rollback()
    transaction = store.begin()
    assert len(stored(transaction)) == 5
    transaction.clear("Counts")
    transaction.append("Counts", reader([row("2", number=7)]))
    transaction.commit(epoch(2))
    transaction = store.begin()
    assert {k: r["number"] for k, r in stored(transaction).items()} == {"2": 7}
    transaction.rollback()


def test_looking_up_by_time_does_not_end_the_transaction(store: Store) -> None:
    """Whatever is bound, the epoch's changes are committed together or not at all."""
    filled(store, [row(str(i), at=minute(i), number=i) for i in range(5)])
    transaction = store.begin()
    transaction.append("Counts", reader([row("new", at=minute(7))]))
    for look in (
        lambda: transaction.lookup_range("Counts", "at", minute(1), minute(3)).read_all(),
        lambda: transaction.delete_range("Counts", "at", minute(0)),
    ):
        look()
        held = stored(transaction)
        transaction.apply("Counts", delta([(held["2"], -1), ({**held["2"], "number": len(held)}, 1)]))
        assert stored(transaction)["2"]["number"] == len(held)
    transaction.rollback()
    transaction = store.begin()
    assert {k: r["number"] for k, r in stored(transaction).items()} == {str(i): i for i in range(5)}
    transaction.rollback()


def test_a_reader_that_was_not_read_does_not_hold_the_next_call(store: Store) -> None:
    filled(store, [row(f"k{i}") for i in range(50_000)])
    transaction = store.begin()
    unread = transaction.lookup("Counts")
    unread.read_next_batch()
    assert transaction.count("Counts") == 50_000
    with pytest.raises(BelvedereError) as error:
        unread.read_all()
    assert code(error.value) == "B7015"
    transaction.commit(epoch(2))


def test_rows_with_columns_in_another_order_and_of_wider_types(store: Store) -> None:
    store.create([COUNTS])
    rows = pa.table(
        {
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
    assert stored(transaction) == {"a": row("a", word="x", number=1, share=1.0, at=minute(1))}
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
        transaction.append("Counts", pa.Table.from_pylist([{"word": "a"}], loose).to_reader())
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
