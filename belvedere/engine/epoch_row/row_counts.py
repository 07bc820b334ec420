"""Numbers of rows of each served relation after an epoch, from the previous numbers and the changes, without counting.

In: the counts of the previous epoch and the epoch's transaction, which knows its inserts and deletes. Out: the counts,
which the epoch's row keeps for `/metrics`, `/status` and notebooks. A new or refilled relation is counted once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from belvedere.store.protocol import Transaction

DOCUMENT = "rows"


def count_rows(
    before: Mapping[str, int], tables: Mapping[str, str], uncertain: Collection[str], transaction: Transaction
) -> dict[str, int]:
    """Return the numbers of rows by public id.

    `tables` are by public id; for `uncertain` tables the previous number is not known.
    """
    return {
        id_: before[id_] + transaction.gained(table)
        if id_ in before and table not in uncertain
        else transaction.count(table)
        for id_, table in tables.items()
    }
