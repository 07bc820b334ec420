"""The cheapest choice, against all choices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from belvedere.catalog.hints import Placement
from belvedere.optimize.choice import Choice, CostedOperator, cheapest, cost_of, next_choice


def random_operators(random: Random, count: int) -> dict[str, CostedOperator]:
    """A random graph; an operator feeds later ones. Costs are of some nanoseconds, which are exact."""
    made = {}
    for n in range(count):
        readers = tuple(f"o{m}" for m in range(n + 1, count) if random.random() < 2 / count)
        costs = [random.choice([0, 1, 3, 10, 30, 100]) * 1e-9 for _ in range(3)]
        fixed = random.choice([*Placement, *[None] * 8])
        made[f"o{n}"] = CostedOperator(f"o{n}", *costs, readers, random.random() < 0.4 or not readers, fixed)
    return made


def choices(operators: dict[str, CostedOperator]) -> Iterator[frozenset[str]]:
    for bits in product([True, False], repeat=len(operators)):
        yield frozenset(n for n, bit in zip(operators, bits, strict=True) if bit)


@pytest.mark.parametrize("seed", range(60))
def test_no_choice_is_cheaper(seed: int) -> None:
    random = Random(seed)
    operators = random_operators(random, 14 if seed == 0 else random.randint(1, 8))
    least = min(cost_of(operators, c) for c in choices(operators))
    if least == float("inf"):
        with pytest.raises(ValueError, match="must be maintained"):
            cheapest(operators)
        return
    found = cheapest(operators)
    assert found.cost == pytest.approx(least)
    assert cost_of(operators, found.maintained) == found.cost


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 130))
def test_no_choice_of_fourteen_operators_is_cheaper(seed: int) -> None:
    operators = {n: CostedOperator(**{**vars(o), "fixed": None}) for n, o in random_operators(Random(seed), 14).items()}
    assert cheapest(operators).cost == pytest.approx(min(cost_of(operators, c) for c in choices(operators)))


def test_a_choice_changes_where_it_gains_more_than_a_fifth() -> None:
    def view(read: float) -> dict[str, CostedOperator]:
        return {"v": CostedOperator("v", maintain=1.0, read=read, asked=True)}

    assert next_choice(view(0.9), {"v"}) == Choice(frozenset({"v"}), 1.0)
    assert next_choice(view(0.7), {"v"}) == Choice(frozenset(), 0.7)
    assert next_choice(view(1.1), set()) == Choice(frozenset(), 1.1)
    assert next_choice({**view(0.7), "w": CostedOperator("w", maintain=9.0, read=8.0)}, {"v", "w"}).maintained == {"w"}
    below = CostedOperator(
        "f", maintain=100.0, readers=("v",), asked=True, fixed=Placement.MAINTAIN
    )  # what no choice saves counts for none
    assert next_choice({**view(0.7), "f": below}, {"v", "f"}).maintained == {"f"}


def test_a_part_is_maintained_and_the_rest_is_computed_at_read() -> None:
    finer = CostedOperator("finer", maintain=1.0, store=0.1, read=50.0, readers=("coarser",))
    coarser = CostedOperator("coarser", maintain=5.0, store=0.1, read=2.0, asked=True)
    assert cheapest({"finer": finer, "coarser": coarser}).maintained == {"finer"}
