"""The nearest name."""

from __future__ import annotations

import pytest

from belvedere.syntax.wording import did_you_mean, distance, nearest_name


@pytest.mark.parametrize(
    ("name", "candidates", "nearest"),
    [
        ("Machine", ["Sensors", "Machines"], "Machines"),
        ("machine_id", ["machineid", "machine"], "machineid"),
        ("MACHINES", ["Machines"], "Machines"),
        ("snesors", ["Sensors"], "Sensors"),
        ("orders", ["customers"], None),
        ("a", ["b"], "b"),
        ("x", [], None),
        ("größe", ["Groesse", "Größe"], "Größe"),
    ],
)
def test_nearest(name: str, candidates: list[str], nearest: str | None) -> None:
    assert nearest_name(name, candidates) == nearest


def test_distance_counts_swaps_once_and_stops_at_the_limit() -> None:
    assert distance("form", "from", 3) == 1
    assert distance("abc", "abc", 0) == 0
    assert distance("abcdef", "uvwxyz", 2) == 3
    assert distance("", "abc", 3) == 3


def test_hints() -> None:
    assert did_you_mean("Machine", ["Machines"]) == "did you mean `Machines`?"
    assert did_you_mean("zzz", ["Orders", "Customers"]) == "there is `Orders`, `Customers`"
    assert did_you_mean("zzz", [f"T{n}_____long" for n in range(10)]) is not None
    assert did_you_mean("zzz", []) is None
