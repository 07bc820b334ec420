"""A process of its own for the store's tests: `python -m tests.store.child ACTION URL`; one line of JSON per answer."""

from __future__ import annotations

import json
import sys

from belvedere.errors import BelvedereError
from belvedere.store import open_reader, open_store
from tests.store.samples import COUNTS, delta, epoch, row, stored

ROUNDS = 1_000_000


def read(url: str) -> None:
    """Answer each line of input with what a snapshot shows: the last epoch and, in one statement, two tables'
    contents."""
    found = open_reader(url)
    sql = (
        'SELECT (SELECT max(epoch) FROM _belvedere_epoch), (SELECT count(*) FROM "Counts"), (SELECT count(*) FROM '
        '"Other"), (SELECT coalesce(max(number), 0) FROM "Counts")'
    )
    for _ in sys.stdin:
        print(json.dumps(found.execute(sql)[0]), flush=True)


def rows(url: str) -> None:
    """Print all rows of the table, by both ways of reading."""
    found = open_reader(url)
    print(json.dumps(found.rows(COUNTS).to_pylist(), default=str), flush=True)


def write(url: str) -> None:
    """Commit epochs for ever: epoch n leaves n * 50 rows, all with number n. Says each number after the commit."""
    store = open_store(url)
    store.create([COUNTS])
    last = store.last_epoch()
    for number in range(last.epoch + 1 if last else 1, ROUNDS):
        transaction = store.begin()
        held = [(r, -1) for r in stored(transaction).values()]
        transaction.apply("Counts", delta(held + [(row(f"k{i}", number=number), 1) for i in range(number * 50)]))
        print("changing", flush=True)
        transaction.commit(epoch(number))
        print(number, flush=True)


if __name__ == "__main__":
    try:
        {"read": read, "rows": rows, "write": write}[sys.argv[1]](sys.argv[2])
    except BelvedereError as error:
        print(error, flush=True)
        sys.exit(1)
