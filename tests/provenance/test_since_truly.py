"""What `since` says of random rows is what was seen epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from belvedere import Workbench
from belvedere.provenance.findings import Since
from tests import depth
from tests.depth import stores_by_turns

START = datetime(2020, 1, 1, tzinfo=UTC)
SCRIPT = """
CREATE TABLE Person (id INT, city STRING, age INT, PRIMARY KEY (id)) WITH HISTORY;
CREATE TABLE Sale (person INT, amount INT) WITH HISTORY;
CREATE STREAM Visit (person INT, page STRING) WITH HISTORY;
_Old := SELECT id, city FROM Person WHERE age > 2;
ByCity := SELECT p.city, count(*) AS n, sum(s.amount) AS total FROM Sale s JOIN _Old p ON p.id = s.person
    GROUP BY p.city WITH HISTORY;
Spent := SELECT p.id, s.amount FROM Person p LEFT JOIN (SELECT person, sum(amount) AS amount FROM Sale
    GROUP BY person) s
         ON s.person = p.id WITH HISTORY;
Pages := SELECT DISTINCT page FROM Visit WITH HISTORY;
Most := SELECT person, max(amount) AS amount FROM Sale GROUP BY person WITH HISTORY;
Best := DISTINCT Sale ON person ORDER BY amount DESC WITH HISTORY;
Seen := SELECT v.person, count(*) AS n FROM Visit v WHERE EXISTS (SELECT 1 FROM Sale s WHERE s.person = v.person)
    GROUP BY v.person WITH HISTORY;
All_ := SELECT person AS k, 'v' AS kind, count(*) AS n FROM Visit GROUP BY person
        UNION ALL SELECT age, 'p', count(*) FROM Person GROUP BY age WITH HISTORY;
"""
KEYS = {
    "ByCity": ("city",),
    "Spent": ("id",),
    "Pages": ("page",),
    "Most": ("person",),
    "Best": ("person",),
    "Seen": ("person",),
    "All_": ("k", "kind"),
    "Person": ("id",),
}
RoleView = dict[tuple[Any, ...], Mapping[str, Any]]
Story = list[tuple[int, int | None, Mapping[str, Any]]]


def change(wb: Workbench, random: Random, sales: list[dict[str, Any]]) -> None:
    """What one epoch takes in; keys come again, and some are NULL."""

    def person() -> int | None:
        return random.choice([1, 2, 3, None])

    if random.random() < 0.6:
        wb.insert(
            "Person",
            [{"id": random.randint(1, 4), "city": random.choice(["a", "ü", None]), "age": random.randint(1, 5)}],
        )
    if random.random() < 0.2:
        wb.delete("Person", [{"id": random.randint(1, 4), "city": None, "age": None}])
    added = [{"person": person(), "amount": random.choice([1, 5, None])} for _ in range(random.randint(0, 2))]
    if added:
        wb.insert("Sale", added)
    if sales and random.random() < 0.4:
        wb.delete("Sale", [sales.pop(random.randrange(len(sales)))])
    sales += added
    if random.random() < 0.5:
        wb.insert("Visit", [{"person": person(), "page": random.choice(["x", "y"])}])


def stories(seen: Mapping[int, RoleView]) -> dict[tuple[Any, ...], Story]:
    """Of each key the epochs from and until which it had which row."""
    found: dict[tuple[Any, ...], Story] = {}
    for epoch, rows in seen.items():
        for key in {*found, *rows}:
            story, row = found.setdefault(key, []), rows.get(key)
            holds = bool(story) and story[-1][1] is None
            if holds and story[-1][2] != row:
                story[-1] = (story[-1][0], epoch, story[-1][2])
            if row is not None and (not holds or story[-1][1] is not None):
                story.append((epoch, None, row))
    return found


def reported(found: Since, names: tuple[str, ...]) -> Story:
    versions = [(v.since.epoch, v.until and v.until.epoch, {n: v.row[n] for n in names}) for v in found.versions]
    return versions[::-1]  # type: ignore[return-value]


def began(story: Story) -> int:
    """The beginning of the last versions that follow each other."""
    first = len(story) - 1
    while first and story[first - 1][1] == story[first][0]:
        first -= 1
    return story[first][0]


def check(spark: Any, seed: int, epochs: int) -> tuple[int, int]:
    """How many versions were compared, and of how many it was told by which rows they came."""
    random, sales = Random(seed), list[dict[str, Any]]()
    wb = Workbench(SCRIPT, spark=spark)
    seen: dict[str, dict[int, RoleView]] = {view: {} for view in KEYS}
    minute = 0
    for _ in range(epochs):
        minute += random.choice([0, 1])  # some epochs have one clock
        wb.clock(START + timedelta(minutes=minute))
        change(wb, random, sales)
        epoch = wb.step()
        for view, key in KEYS.items():
            seen[view][epoch] = {tuple(r[k] for k in key): r for r in wb.rows(view)}
    compared = explained = 0
    for view, key in KEYS.items():
        for values, story in stories(seen[view]).items():
            if story[-1][1] is not None:
                continue
            found = wb.why(view, dict(zip(key, values, strict=True)), size=100).since
            assert found is not None
            names = tuple(story[0][2])
            assert reported(found, names) == story, (seed, view, values)
            assert (found.appeared is not None and found.appeared.epoch, found.count) == (began(story), len(story))
            compared += len(story) if view != "Person" else 0
            explained += sum(bool(v.made_by) for v in found.versions)
            untold = [v for v in found.versions if not v.made_by]
            assert view == "Person" or bool(untold) == any("which rows caused" in u for u in found.unknown)
            assert view != "Best" or not untold
            assert all(came_then(found))
    wb.close()
    return compared, explained


def came_then(found: Since) -> Iterator[bool]:
    """Whether the rows that are named for a version came or went in its epoch."""
    for version in found.versions:
        for read in version.made_by:
            column = "_since_epoch" if read.words == "arrived" else "_until_epoch"
            yield all(r[column] == version.since.epoch for r in read.rows)


@pytest.mark.deep
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(2)), indirect=["each_store"])
def test_versions_are_those_that_were_seen(executor: Any, seed: int) -> None:
    compared, explained = check(executor, seed, 6 if depth.quick else 12)
    print(compared, explained)
    assert compared > 10
    assert explained > 0.9 * compared


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
@pytest.mark.parametrize(("each_store", "seed"), stores_by_turns(range(100, 120)), indirect=["each_store"])
def test_versions_of_many_rows_are_those_that_were_seen(spark: Any, seed: int) -> None:
    compared, explained = check(spark, seed, 25)
    assert explained > 0.9 * compared
