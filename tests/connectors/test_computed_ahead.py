"""Results computed by threads come in the order of their items, and errors where they stand."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from belvedere.connectors.reading.computed_ahead import computed_ahead

THREADS = pytest.mark.parametrize("threads", [1, 2, 4])


def items(count: int, taken: list[int] | None = None, broken: bool = False) -> Iterator[int]:
    for n in range(count):
        if taken is not None:
            taken.append(n)
        yield n
    if broken:
        raise OSError("the disk went away")


def slower_first(n: int) -> int:
    time.sleep(0.02 if n % 3 == 0 else 0)
    return n * n


@THREADS
def test_results_are_in_order(threads: int) -> None:
    assert [r for r, _ in computed_ahead(slower_first, items(20), threads)] == [n * n for n in range(20)]
    assert list(computed_ahead(slower_first, items(0), threads)) == []


@THREADS
def test_who_stops_has_its_item_and_all_behind_it(threads: int) -> None:
    for result, left in computed_ahead(slower_first, items(12), threads):
        if result == 25:
            assert list(left) == list(range(5, 12))
            break
    else:
        pytest.fail("no such result")


@THREADS
def test_few_items_are_taken_ahead(threads: int) -> None:
    taken: list[int] = []
    next(computed_ahead(slower_first, items(1_000, taken), threads))
    assert len(taken) <= threads + 1


@THREADS
def test_an_error_of_the_items_is_raised_behind_the_results(threads: int) -> None:
    found: list[int] = []
    with pytest.raises(OSError, match="went away"):
        found.extend(result for result, _ in computed_ahead(slower_first, items(3, broken=True), threads))
    assert found == [0, 1, 4]


@THREADS
def test_an_error_of_the_items_is_raised_behind_those_that_are_left(threads: int) -> None:
    found: list[int] = []
    with pytest.raises(OSError, match="went away"):
        found.extend(item for _, left in computed_ahead(slower_first, items(3, broken=True), threads) for item in left)
    assert found == [0, 1, 2]


@THREADS
def test_an_error_of_a_result_is_raised_in_its_place(threads: int) -> None:
    found: list[int] = []
    with pytest.raises(ZeroDivisionError):
        found.extend(result for result, _ in computed_ahead(lambda n: 1 // (n - 2), items(5), threads))
    assert found == [-1, -1]
