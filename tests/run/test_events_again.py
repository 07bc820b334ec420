"""A corrected script over files, with a subscription and exports: sent events are not sent again, on all stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.depth import at_night
from tests.run.loops import Loop

BEFORE = """
IMPORT shop.Orders AS _Orders;
Latest := DISTINCT _Orders ON id ORDER BY _ingest_time DESC;
CREATE SUBSCRIPTION Dear ON ADD AS SELECT id, price FROM Latest WHERE price > 100;
ByPrice := SELECT price, count(*) AS n FROM Latest GROUP BY price;
EXPORT ByPrice TO out.ByPrice;
EXPORT Dear TO out.Dear;
"""
AFTER = BEFORE.replace(
    "Latest := DISTINCT _Orders ON id ORDER BY _ingest_time DESC",
    "_Good := SELECT id, coalesce(price, 500) AS price, _ingest_time AS at FROM _Orders;\n"
    "Latest := DISTINCT _Good ON id ORDER BY at DESC",
)
PROJECT = '[sources.shop]\npath = "data"\n[sinks.out]\nconnector = "files"\npath = "out"\nformat = "json"\n'


def sent(folder: Path, target: str) -> list[dict[str, Any]]:
    """What a sink has, in the order in which it was written, without what the engine adds."""
    lines = [line for f in sorted((folder / "out" / target).glob("*.json*")) for line in f.read_text().splitlines()]
    return [{n: v for n, v in json.loads(line).items() if not n.startswith("_")} for line in lines]


@pytest.mark.spark
@pytest.mark.parametrize("each_store", ["sqlite", *at_night(["postgres"])], indirect=True)
def test_only_what_differs_is_sent(spark: Any, tmp_path: Path, each_store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres_url") if each_store == "postgres" else None
    loop = Loop(spark, tmp_path, BEFORE, PROJECT, url)
    orders = tmp_path / "data" / "Orders"
    orders.mkdir(parents=True)
    (orders / "1.jsonl").write_text('{"id": 1, "price": 900}\n{"id": 2, "price": 5}\n{"id": 3, "price": null}\n')
    loop.once()
    first = {target: sent(tmp_path, target) for target in ("Dear", "ByPrice")}
    assert first["Dear"] == [{"id": 1, "price": 900}]
    assert len(first["ByPrice"]) == 3

    loop.script = AFTER
    loop.once()
    assert sent(tmp_path, "Dear") == [{"id": 1, "price": 900}, {"id": 3, "price": 500}]
    changes = sent(tmp_path, "ByPrice")[len(first["ByPrice"]) :]
    assert sorted((c["price"] is None, c["price"]) for c in changes) == [(False, 500), (True, None)]
    (orders / "2.jsonl").write_text('{"id": 4, "price": 700}\n')
    loop.once()
    loop.once()
    assert [r["id"] for r in sent(tmp_path, "Dear")] == [1, 3, 4]
