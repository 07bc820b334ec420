"""The fewest indexes: each read finds its columns at the beginning of one, and no fewer lists do."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

import pytest

from belvedere.optimize.covering import Columns, ReadBy, covering, read_by

ALL = [p for n in (1, 2, 3) for p in permutations("abc", n)]


def serves(index: Columns, read: ReadBy) -> bool:
    width = len(read.equal)
    return set(index[:width]) == set(read.equal) and index[width : width + len(read.ordered)] == read.ordered


def least(reads: list[ReadBy]) -> int:
    return next(
        n
        for n in range(len(reads) + 1)
        for c in combinations(ALL, n)
        if all(any(serves(i, r) for i in c) for r in reads)
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_fewer_indexes_serve_all_reads(seed: int) -> None:
    random = Random(seed)
    reads = []
    for _ in range(random.randrange(1, 7)):
        columns = random.sample("abc", random.randrange(1, 4))
        cut = random.randrange(len(columns) + 1)
        reads.append(read_by(columns[:cut], columns[cut:]))
    found = covering(reads)
    assert all(any(serves(i, r) for i in found) for r in reads), (reads, found)
    assert len(found) == least(reads), (reads, found)


def test_equal_columns_share_an_index_in_the_order_that_serves_both() -> None:
    assert covering([read_by(["a", "b"]), read_by(["b"])]) == (("b", "a"),)
    assert covering([read_by(["b", "a"]), read_by((), ["b", "a", "c"])]) == (("b", "a", "c"),)
    assert covering([read_by(()), read_by((), ())]) == ()
