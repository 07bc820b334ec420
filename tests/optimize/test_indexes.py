"""The indexes that reads need."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.templates import Parameter, QueryTemplate
from belvedere.catalog.views import View
from belvedere.optimize.indexes import read_indexes
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Filter, Item, Order, Project, Scan
from belvedere.schema import Column, Schema

SCHEMA = Schema(
    (Column("group", pa.int64(), False), Column("hour", pa.int64(), False), Column("temp", pa.float64())),
    ("group", "hour"),
)
SCAN = Scan("Hours", SCHEMA)


def catalog(*, public: bool = True) -> Catalog:
    renamed = Project(SCAN, tuple(Item(f"h.{c.name}", column(c.name), c.type) for c in SCHEMA))
    condition = exp.paren(exp.EQ(this=column("h.temp"), expression=exp.Placeholder(this="t")))
    template = QueryTemplate("ByTemp", (Parameter("t", pa.float64()),), Filter(renamed, condition), SCHEMA)
    latest = (Order(exp.column("hour", table="target", quoted=True), descending=True),)
    relationships = (
        Relationship("Other", "byGroup", "Hours", (("id", "group"),)),
        Relationship("Other", "latest", "Hours", (("id", "group"),), order=latest, limit=1),
        Relationship("Other", "byHour", "Hours", (("id", "hour"),)),
        Relationship("Hours", "other", "Other", (("group", "id"),)),
    )
    views = {"Hours": View("Hours", "Hours", SCAN, SCHEMA)}
    return Catalog({}, views, relationships, {"ByTemp": template}, public=frozenset({"Hours"} if public else ()))


def test_keys_relationships_and_templates_have_indexes() -> None:
    assert read_indexes(catalog(), "Hours") == (("group", "hour"), ("hour",), ("temp",))


def test_what_is_not_shown_has_none() -> None:
    assert read_indexes(catalog(public=False), "Hours") == ()
