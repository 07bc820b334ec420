"""Relationships with parameters, on both stores: fields with arguments, in one statement, whatever the depth."""

from __future__ import annotations

import random
from typing import Any

import pytest

from belvedere.compiler import compile_script
from belvedere.optimize.indexes import read_indexes
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE Owners (id INT, best INT, PRIMARY KEY (id));
CREATE STREAM Things (owner INT, v INT, kind STRING, price DECIMAL(10, 2)) KEEP 30 DAYS;
Owners.above(least INT, kind STRING = 'a') :=
SELECT * FROM Things t WHERE t.owner = this.id AND t.v >= :least + this.best AND t.kind = :kind
    ORDER BY t.v DESC, t.price LIMIT 3;
Owners.cheapest(most DECIMAL(10, 2)) := JOIN Things t ON t.owner = _.id AND t.price <= :most ORDER BY t.price DESC, t.v
    LIMIT 1;
/*+ query_by_any(best) */
Rivals := SELECT * FROM Owners;
Things.others(best INT) := SELECT * FROM Rivals o WHERE o.id <> this.owner AND o.best > :best;
Things.rivals(off INT) := SELECT * FROM Owners o WHERE o.id <> this.owner AND o.best > :off;
"""


@pytest.mark.usefixtures("each_store")
def test_each_use_has_its_own_arguments(executor: Any) -> None:
    rng = random.Random(7)
    owners = [{"id": i, "best": rng.randint(0, 3)} for i in range(6)]
    things = [
        {
            "owner": rng.randrange(7),
            "v": rng.randint(0, 9),
            "kind": rng.choice("ab"),
            "price": f"{rng.randint(0, 99)}.{n:02}",
        }
        for n in range(60)
    ]
    wb = Workbench(SCRIPT, spark=executor)
    wb.insert("Owners", owners)
    wb.insert("Things", things)
    wb.step()
    answer = wb.graphql(
        """query($kind: String!, $most: Decimal!) {
          owners {
            id
            above(least: 2) { v price rivals(off: 1) { id } others(best: 1) { id } }
            other: above(least: 0, kind: $kind, filter: {v: {lt: 8}}) { v }
            cheapest(most: $most) { price }
          }
        }""",
        {"kind": "b", "most": "50.00"},
    )
    assert answer["data"]["owners"] == [expected(o, things, owners) for o in owners]
    wb.close()


def expected(owner: dict[str, Any], things: list[dict[str, Any]], owners: list[dict[str, Any]]) -> dict[str, Any]:
    own = [t for t in things if t["owner"] == owner["id"]]

    def above(least: int, kind: str) -> list[dict[str, Any]]:
        found = [t for t in own if t["v"] >= least + owner["best"] and t["kind"] == kind]
        return sorted(found, key=lambda t: (-t["v"], float(t["price"])))[:3]

    rivals = [{"id": o["id"]} for o in owners if o["id"] != owner["id"] and o["best"] > 1]
    cheap = sorted((t for t in own if float(t["price"]) <= 50), key=lambda t: (-float(t["price"]), t["v"]))
    return {
        "id": owner["id"],
        "above": [
            {"v": t["v"], "price": padded(t["price"]), "rivals": rivals, "others": rivals} for t in above(2, "a")
        ],
        "other": [{"v": t["v"]} for t in above(0, "b") if t["v"] < 8],
        "cheapest": {"price": padded(cheap[0]["price"])} if cheap else None,
    }


def padded(price: str) -> str:
    return f"{float(price):.2f}"


def test_an_index_finds_them() -> None:
    compiled = compile_script(SCRIPT)
    assert compiled.ok
    found = read_indexes(compiled.catalog, "Things")
    assert ("kind", "owner", "v", "price") in found
    assert ("owner", "price", "v") in found


def test_one_that_the_store_cannot_compute_is_left_out() -> None:
    script = (
        SCRIPT + "Owners.near(at DOUBLE) := SELECT * FROM Things t WHERE t.owner = this.id ORDER BY abs(t.v - :at);"
    )
    found = [d for d in compile_script(script).diagnostics if d.code == "B8020"]
    assert [d.message.partition(": ")[0] for d in found] == ["the API leaves `Owners.near` out"]
    assert found[0].span is not None
