"""The store computes the same for clients as Spark: aggregates of grouping views, filters on joining views.

The views are one stored and one that is computed at read time; empty at first, then with NULL, NaN, infinities and
letters of other scripts.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from belvedere.workbench.workbench import Workbench

NUMBERS = {
    "small": "DECIMAL(7, 2)", "cents": "DECIMAL(12, 2)", "amount": "DECIMAL(18, 4)", "wide": "DECIMAL(30, 6)",
    "widest": "DECIMAL(38, 6)",
    "ratio": "DOUBLE", "single": "FLOAT", "n": "BIGINT", "i": "INT", "tiny": "SMALLINT",
    "span": "INTERVAL DAY TO SECOND",
}  # fmt: skip
OTHERS = {"at": "TIMESTAMP", "day": "DATE", "flag": "BOOLEAN", "note": "STRING"}
DECIMALS = {"small": (7, 2), "cents": (12, 2), "amount": (18, 4), "wide": (30, 6), "widest": (33, 6)}
PARTS = {
    "sum": NUMBERS, "avg": NUMBERS, "min": NUMBERS | OTHERS, "max": NUMBERS | OTHERS, "countOf": NUMBERS | OTHERS,
    "countDistinct": {n: t for n, t in (NUMBERS | OTHERS).items() if n not in ("ratio", "single")},
}  # fmt: skip
SQL = {"countOf": "count({})", "countDistinct": "count(DISTINCT {})"}


def values(over: str) -> str:
    said = (
        (SQL.get(part, part + "({})").format(column), f"{part}_{column}")
        for part, columns in PARTS.items()
        for column in columns
    )
    return (
        f"region, count(*) AS number, {', '.join(f'{sql} AS {name}' for sql, name in said)} FROM {over} GROUP BY region"
    )


SCRIPT = f"""
CREATE TABLE Sales (id INT, region STRING, {", ".join(f"{n} {t}" for n, t in (NUMBERS | OTHERS).items())},
    PRIMARY KEY (id));
CREATE TABLE Regions (region STRING, title STRING, PRIMARY KEY (region));
/*+ at_read */
Known := SELECT * FROM Sales WHERE id > 0;
Totals := SELECT {values("Sales")};
Regions.sales := JOIN Sales s ON s.region = _.region;
Regions.known := JOIN Known k ON k.region = _.region;
Sold := SELECT r.region FROM Regions r LEFT SEMI JOIN Sales s ON s.region = r.region AND s.ratio > 1;
Unsold := SELECT r.region FROM Regions r LEFT ANTI JOIN Sales s ON s.region = r.region AND s.ratio > 1;
"""
GROUPS = "by { region } count " + " ".join(f"{part} {{ {' '.join(columns)} }}" for part, columns in PARTS.items())
REGIONS = ("north", "süd", "北", "", "nothing here")


def random_sale(random: Random, number: int) -> dict[str, Any]:
    def of(value: Any) -> Any:
        return None if random.random() < 0.2 else value

    row: dict[str, Any] = {"id": number, "region": of(random.choice(REGIONS[:4]))}
    for name, (digits, scale) in DECIMALS.items():
        most = 10**digits - 1
        row[name] = of(Decimal(random.choice([random.randint(-most, most), random.randint(-99, 99)])).scaleb(-scale))
    row["ratio"] = of(
        random.choice([0.1, -2.5, 1e300, 3.0, -0.0, 0.0] + [float("nan"), float("inf")] * (number % 7 == 0))
    )
    row["single"] = of(random.choice([0.5, 0.1, -7.25]))
    row |= {
        "n": of(random.randint(-(2**55), 2**55)),
        "i": of(random.randint(-(2**31), 2**31 - 1)),
        "tiny": of(random.randint(-9, 9)),
    }
    row["span"] = of(timedelta(microseconds=random.randint(-(10**15), 10**15)))
    row["at"] = of(datetime(1969, 12, 31, tzinfo=UTC) + timedelta(microseconds=random.randint(0, 10**12)))
    row["day"] = of(date(2020, 2, 28) + timedelta(days=random.randint(-20_000, 3)))
    row |= {"flag": of(random.random() < 0.5), "note": of(random.choice(["ä", "a\u0000b", "z", "Z", "𝄞", '"', ""]))}
    return row


def graphql(wb: Workbench, text: str) -> Any:
    answer = wb.graphql(text)
    assert "errors" not in answer, answer
    return answer["data"]


def of_spark(row: dict[str, Any]) -> dict[str, Any]:
    """A row of Totals in the form of a group."""
    return {"by": {"region": row["region"]}, "count": row["number"]} | {
        part: {c: row[f"{part}_{c}"] for c in columns} for part, columns in PARTS.items()
    }


def assert_alike(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for part, requested in expected.items():
        for column, value in requested.items() if isinstance(requested, dict) else [("", requested)]:
            got = found[part][column] if column else found[part]
            inexact = isinstance(value, float) and isinstance(got, float)
            assert got == (pytest.approx(value, rel=1e-9) if inexact else value), (expected["by"], part, column)


@pytest.mark.spark
@pytest.mark.usefixtures("each_store")
def test_the_store_computes_what_spark_does(spark: Any) -> None:
    random, wb = Random(7), Workbench(SCRIPT)
    fields = " ".join(f"{part}_{column}" for part, columns in PARTS.items() for column in columns)
    text = f"""{{
      totals(order: [{{region: ASC}}]) {{ region number {fields} }}
      salesAggregate {{ {GROUPS} }}
      knownAggregate {{ {GROUPS} }}
      all: salesAggregate {{ count sum {{ n }} }}
      regions {{ region salesAggregate {{ {GROUPS} }}
        knownPage(last: 2, order: [{{id: ASC}}]) {{ totalCount nodes {{ id }} }} }}
      sold {{ region }}
      some: regions(filter: {{sales: {{some: {{ratio: {{gt: 1}}}}}}}}) {{ region }}
      unsold {{ region }}
      none: regions(filter: {{known: {{none: {{ratio: {{gt: 1}}}}}}}}) {{ region }}
    }}"""
    wb.step()
    empty = graphql(wb, text)
    assert (empty["salesAggregate"], empty["all"]) == ([], [{"count": 0, "sum": {"n": None}}])
    wb.insert("Regions", [{"region": r, "title": r.upper()} for r in REGIONS])
    wb.insert("Sales", [random_sale(random, n) for n in range(1, 60)])
    wb.step()
    wb.insert("Sales", [random_sale(random, n) for n in range(40, 90)])
    wb.step()
    data = graphql(wb, text)
    groups = {t["region"]: of_spark(t) for t in data["totals"]}
    assert len(groups) == 5
    for name in ("salesAggregate", "knownAggregate"):
        assert [g["by"]["region"] for g in data[name]] == [t["region"] for t in data["totals"]]
        for group in data[name]:
            assert_alike(group, groups[group["by"]["region"]])
    assert data["all"][0]["count"] == sum(g["count"] for g in groups.values())
    for region in data["regions"]:
        known = groups.get(region["region"])
        assert len(region["salesAggregate"]) == (known is not None)
        if known is not None:
            assert_alike(region["salesAggregate"][0], known)
        assert region["knownPage"]["totalCount"] == (known["count"] if known else 0)
    assert data["some"] == sorted(data["sold"], key=data["some"].index)
    assert data["none"] == sorted(data["unsold"], key=data["none"].index)
    assert len(data["some"]) + len(data["none"]) == len(REGIONS)
    wb.close()
