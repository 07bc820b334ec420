"""Aggregates that follow rows that only arrive: their rows in the function table say how."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from belvedere.functions.algebra import Algebra
from belvedere.functions.function import Function
from belvedere.functions.function_table import BY_KEY
from belvedere.plan.operators.nodes import Item
from belvedere.rules.merge.accumulate import accumulate, template
from belvedere.schema import Column, Schema
from belvedere.spark_sql.dialect import SparkSql

WITH_ALGEBRA = [f for f in BY_KEY.values() if f.algebra is not None]
SOURCE = Schema((Column("v", pa.int64()),))


@pytest.mark.parametrize("row", [pytest.param(f, id=f.key) for f in WITH_ALGEBRA])
def test_texts_read_values_and_parts_alone(row: Function) -> None:
    algebra = row.algebra
    assert algebra is not None
    names = {name for name, _ in algebra.parts}
    assert len(algebra.parts) == len(algebra.add) == len(algebra.merge)
    assert {c.name for t in algebra.add for c in template(t).find_all(exp.Column)} == {"x"}
    read = {(c.table, c.name) for t in algebra.merge for c in template(t).find_all(exp.Column)}
    assert read == {(side, name) for side in ("old", "new") for name in names}
    assert {c.name for c in template(algebra.result).find_all(exp.Column)} - {"_s"} <= names


def test_a_row_alone_lets_an_aggregate_follow_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Item("a", parse_one("bit_or(v)", dialect=SparkSql), pa.int64())
    assert accumulate(call, SOURCE, append_only=True) is None
    algebra = Algebra((("b", None),), ("bit_or(x)",), ("coalesce(old.b | new.b, old.b, new.b)",), "b")
    monkeypatch.setitem(BY_KEY, "BitwiseOrAgg", replace(BY_KEY["BitwiseOrAgg"], algebra=algebra))
    found = accumulate(call, SOURCE, append_only=True)
    assert found is not None
    assert found.columns == (("b", pa.int64()),)
    assert [p.find(exp.BitwiseOrAgg) is not None for p in found.partials] == [True]
    assert accumulate(call, SOURCE, append_only=False) is None
