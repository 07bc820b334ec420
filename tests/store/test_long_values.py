"""Values of any length are stored: where Postgres cannot index them the index gives way, and reads find the same
rows."""

from __future__ import annotations

import os

import pytest

from belvedere.store import Store, StoredTable, open_store
from tests.store.samples import COUNTS, delta, epoch, reader, row, stored

WORDS = StoredTable(
    "Words", COUNTS.schema, indexes=(("word", "number"), ("number", "word"), ("at",)), fingerprint="words"
)
LONG = ["é" * 5_000, os.urandom(5_000).hex(), "日本" + os.urandom(2_000).hex()]


def word(key: str, text: str | None, number: int = 1) -> dict[str, object]:
    return row(key, word=text, number=number)


@pytest.mark.parametrize("first", ["short", "long"])
def test_long_values_may_come_at_any_time(store: Store, url: str, first: str) -> None:
    store.create([WORDS])
    rows = {f"k{n}": text for n, text in enumerate(["a", None, *LONG] if first == "short" else [*LONG, "a", None])}
    transaction = store.begin()
    transaction.append("Words", reader([word(k, t) for k, t in rows.items()], WORDS, cut=1))
    transaction.commit(epoch(1))
    transaction = store.begin()
    before = word("k0", rows["k0"])
    rows |= {"k0": LONG[1], "k9": LONG[0] + "!"}
    changes = [(before, -1), *((word(k, rows[k], 2), 1) for k in ("k0", "k9"))]
    transaction.apply("Words", delta(changes, WORDS))
    transaction.commit(epoch(2))
    store.close()
    again = open_store(url)
    again.create([WORDS])
    transaction = again.begin()
    assert {k: r["word"] for k, r in stored(transaction, WORDS).items()} == rows
    transaction.append("Words", reader([word("k10", LONG[2])], WORDS))
    transaction.rollback()
    again.close()


def test_only_indexes_of_long_values_are_narrow(store: Store, url: str) -> None:
    if store.dialect == "sqlite":
        pytest.skip("SQLite indexes values of any length")
    from adbc_driver_postgresql import dbapi

    store.create([WORDS])
    transaction = store.begin()
    transaction.append("Words", reader([word("k", LONG[0])], WORDS))
    transaction.commit(epoch(1))
    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT indexdef FROM pg_indexes WHERE tablename = 'Words'")
        found = sorted(d.partition(" USING ")[2] for (d,) in cursor.fetchall())
        assert found == ["btree (_key)", "btree (at)", "btree (number)", "hash (word)"]
