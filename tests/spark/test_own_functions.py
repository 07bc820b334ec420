"""Functions of a project in views: what they give, kept by changes as in batch, and what is told where one fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from belvedere import Workbench
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.functions import spark_types as t
from belvedere.queries.single_query import compile_query
from belvedere.schema import Column
from belvedere.spark.query_files import answer_template

MODULE = """
import belvedere
import pyarrow.compute as pc
import rates_beside

@belvedere.function("price DOUBLE, qty INT", "DOUBLE")
def discounted(price, qty):
    if pc.any(pc.equal(qty, 13)).as_py():
        raise ValueError("thirteen")
    return pc.multiply(price, pc.if_else(pc.greater(qty, 10), rates_beside.LOW, 1.0))

@belvedere.function("s STRING", "STRING")
def shout(s):
    return pc.utf8_upper(s)
"""
SCRIPT = """
CREATE TABLE T (id INT, price DOUBLE, qty INT, s STRING, PRIMARY KEY (id));
A := SELECT id, discounted(price, qty) AS d, shout(s) AS u FROM T;
B := SELECT shout(s) AS u, sum(discounted(price, qty)) AS t FROM T WHERE discounted(price, 2) > 1 GROUP BY shout(s);
C := SELECT a.id, b.id AS o FROM T a JOIN T b ON shout(a.s) = b.s AND discounted(a.price, b.qty) > 2;
D := FROM T AS g WINDOW BY w ORDER BY g.id TYPE SLIDING START AS s WHEN discounted(s.price, s.qty) > 2
  END NEXT AS n WHEN n.qty > 2 SELECT s.id AS i, shout(s.s) AS u;
"""


def bag(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


@pytest.mark.spark
def test_functions_of_a_project(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "belvedere.toml").write_text('[functions]\nmodule = "pricing.py"\n')
    (tmp_path / "pricing.py").write_text(MODULE)
    (tmp_path / "rates_beside.py").write_text("LOW = 0.5\n")
    wb = Workbench(SCRIPT, spark=spark, project=load_project(tmp_path))
    wb.insert("T", [{"id": 1, "price": 3.0, "qty": 2, "s": "a"}, {"id": 2, "price": 8.0, "qty": 20, "s": "A"}])
    wb.insert("T", [{"id": 3, "price": None, "qty": 2, "s": None}])
    wb.step()
    assert sorted((r["id"], r["d"], r["u"]) for r in wb.rows("A")) == [(1, 3.0, "A"), (2, 4.0, "A"), (3, None, None)]
    wb.insert("T", [{"id": 1, "price": 9.0, "qty": 11, "s": "A"}, {"id": 4, "price": 8.0, "qty": 2, "s": "b"}])
    wb.step()
    wb.restart()
    wb.delete("T", [{"id": 2}])
    wb.step()
    for view in wb.catalog.views:
        assert bag(wb.rows(view)) == bag(wb.batch(view)), view
    wb.insert("T", [{"id": 5, "price": 9.0, "qty": 13, "s": "x"}])
    with pytest.raises(BelvedereError) as failed:
        wb.step()
    reported = failed.value.diagnostics[0]
    assert reported.code == "B7040"
    assert "function" in reported.message
    for part in ("discounted", "qty = 13", "pricing.py, line 9"):
        assert part in (reported.detail or "")
    wb.close()


@pytest.mark.spark
def test_one_query_calls_them(tmp_path: Path, spark: Any) -> None:
    (tmp_path / "belvedere.toml").write_text('[functions]\nmodule = "pricing.py"\n')
    (tmp_path / "pricing.py").write_text(MODULE)
    (tmp_path / "rates_beside.py").write_text("LOW = 0.5\n")
    project = load_project(tmp_path)
    catalog, template = compile_query("SELECT shout(s) AS u FROM t", {"t": [Column("s", t.STRING)]}, project=project)
    found = answer_template(spark, catalog, template, {next(iter(catalog.inputs)): pa.table({"s": ["a"]})})
    assert found.to_pylist() == [{"u": "A"}]
