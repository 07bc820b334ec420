"""Making, keeping, changing and dropping stored tables."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from belvedere.errors import BelvedereError
from belvedere.schema import Column, Schema
from belvedere.store import Store, StoredTable, open_store
from belvedere.store.identifiers import MAX_NAME_BYTES, stored_name
from tests.store.samples import COUNTS, code, epoch, filled, row, stored


def indexes(store: Store) -> int:
    """How many indexes the views' tables have."""
    sql = {
        "sqlite": "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND sql LIKE '%ON \"%'",
        "postgres": "SELECT count(*) FROM pg_indexes WHERE indexname ~ '^_belvedere_[0-9a-f]{32}$'",
    }[store.dialect]
    reader = store.reader()
    ((found,),) = reader.execute(sql)
    reader.close()
    return int(found)


def test_tables_come_back_as_they_were_defined(store: Store, url: str) -> None:
    types = (
        pa.list_(pa.struct([("ä", pa.decimal128(30, 2))])),
        pa.map_(pa.string(), pa.timestamp("us", "UTC")),
        pa.null(),
    )
    columns = tuple(Column(f"c{i}", t, i != 0, i == 1, "doc 'x'") for i, t in enumerate(types))
    other = StoredTable("Öther~1", Schema(columns, ("c0",)), ("c0",), (("c1", "c2"), ("c2",)), "µ")
    store.create([COUNTS, other])
    assert store.tables() == (COUNTS, other)
    again = open_store(url)
    assert again.tables() == (COUNTS, other)
    again.create([other, COUNTS])
    again.close()


def test_create_keeps_the_rows_of_an_existing_table(store: Store) -> None:
    filled(store, [row("a")])
    store.create([COUNTS])
    transaction = store.begin()
    assert list(stored(transaction)) == ["a"]
    transaction.rollback()


@pytest.mark.parametrize(
    "other",
    [
        replace(COUNTS, fingerprint="other"),
        replace(COUNTS, schema=Schema((*COUNTS.schema.columns, Column("more", pa.int64())))),
        replace(COUNTS, schema=Schema((Column("word", pa.binary()), *COUNTS.schema.columns[1:]))),
    ],
)
def test_another_meaning_is_refused_until_the_table_is_dropped(store: Store, other: StoredTable) -> None:
    filled(store, [row("a")])
    with pytest.raises(BelvedereError) as error:
        store.create([other])
    assert code(error.value) == "B7009"
    store.drop(["Counts", "Nobody"])
    assert store.tables() == ()
    store.create([other])
    assert store.tables() == (other,)
    transaction = store.begin()
    assert transaction.count("Counts") == 0
    transaction.rollback()


def test_indexes_come_and_go(store: Store) -> None:
    bare = replace(COUNTS, ranges=(), indexes=())
    store.create([bare])
    before = indexes(store)
    assert before == 1
    store.create([COUNTS])
    assert indexes(store) == before + 2
    assert store.tables() == (COUNTS,)
    store.create([bare])
    assert indexes(store) == before


def test_tables_made_and_dropped_in_an_epoch_are_part_of_it(store: Store) -> None:
    other = replace(COUNTS, name="Other")
    store.create([COUNTS])
    transaction = store.begin()
    store.create([other])
    store.drop(["Counts"])
    assert transaction.count("Other") == 0
    transaction.rollback()
    assert store.tables() == (COUNTS,)
    transaction = store.begin()
    store.create([other])
    transaction.commit(epoch(1))
    assert store.tables() == (COUNTS, other)


NAMES = [
    'quo"te', "semi;colon --", "ünïcödé \U0001f600", "sqlite_master", "SQLite_x", "_belvedere_epoch", "ctid", "rowid",
    "select",
    "l" * 63, "l" * 64, "ö" * 100, "ö" * 100 + "2", "with ? and $1 and %s", "Name~1", " ", "a.b", "'", "",
]  # fmt: skip


def test_any_name_can_be_used_for_tables_and_columns(store: Store) -> None:
    schema = Schema(tuple(Column(name, pa.int64()) for name in NAMES))
    tables = [StoredTable(name, schema, (name,), ((name,),)) for name in NAMES]
    store.create(tables)
    for place, table in enumerate(tables):
        transaction = store.begin()
        values = {name: i + place for i, name in enumerate(NAMES)}
        rows = pa.Table.from_pylist([{**values, "_key": "k"}], table.arrow)
        transaction.append(table.name, rows.to_reader())
        assert transaction.lookup(table.name, pa.array(["k"])).read_all().to_pylist() == rows.to_pylist()
        assert transaction.lookup_range(table.name, table.name, None, 1000).read_all().num_rows == 1
        assert transaction.delete_range(table.name, table.name, -1) == 0
        transaction.commit(epoch(place))
    reader = store.reader()
    assert [reader.rows(t).to_pylist()[0][NAMES[0]] for t in tables] == list(range(len(NAMES)))
    reader.close()
    assert {name: rows for name, (rows, _) in store.size().items()} == dict.fromkeys(NAMES, 1)


def test_stored_names_are_names_of_their_own() -> None:
    assert len({stored_name(n).casefold() for n in NAMES}) == len(NAMES)
    assert all(len(stored_name(n).encode()) <= MAX_NAME_BYTES for n in NAMES)
    assert stored_name("Orders") == "Orders"


def test_names_that_differ_in_case_only_are_refused(store: Store) -> None:
    store.create([COUNTS])
    with pytest.raises(BelvedereError) as error:
        store.create([replace(COUNTS, name="counts")])
    assert code(error.value) == "B7017"
    twice = Schema((Column("a", pa.int64()), Column("A", pa.int64())))
    with pytest.raises(BelvedereError) as error:
        store.create([StoredTable("t", twice)])
    assert code(error.value) == "B7017"


def test_a_failing_create_leaves_nothing(store: Store) -> None:
    bad = StoredTable("bad", Schema((Column("x", pa.uint64()),)))
    with pytest.raises(BelvedereError) as error:
        store.create([COUNTS, bad])
    assert code(error.value) == "B7012"
    assert store.tables() == ()
    store.create([COUNTS])


def test_size_counts_rows_and_bytes(store: Store) -> None:
    filled(store, [row(f"k{i}", word="w" * 100) for i in range(5000)])
    ((rows, size),) = store.size().values()
    assert rows == 5000
    assert 500_000 < size < 5_000_000
