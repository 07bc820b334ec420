"""A catalog and rows for it: monitoring groups with nested machines and hourly readings, and columns of every type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.templates import Parameter, QueryTemplate
from belvedere.catalog.views import View
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Filter, Item, Order, Project, Scan
from belvedere.schema import INGEST_TIME, TIMESTAMP, UID, Column, Schema
from belvedere.store.stored_table import StoredTable

HIDDEN = (Column(UID, pa.int64(), False, hidden=True), Column(INGEST_TIME, TIMESTAMP, False, hidden=True))

GROUP = Schema(
    (Column("groupid", pa.int32(), False), Column("groupName", pa.string(), doc="What people call it."), *HIDDEN),
    ("groupid",),
)
MACHINES = Schema(
    (
        Column("machineId", pa.int64()),
        Column("machineName", pa.string()),
        Column("groupid", pa.int32(), False, hidden=True),
        Column("_index", pa.int32(), False, hidden=True),
    ),
    ("groupid", "_index"),
)
HOURS = Schema(
    (
        Column("groupid", pa.int32(), False, hidden=True),
        Column("time_hour", TIMESTAMP, False),
        Column("avg_temp", pa.float64()),
        Column("max_temp", pa.float64()),
    ),
    ("groupid", "time_hour"),
)
THINGS = Schema(
    (
        Column("id", pa.int64(), False),
        Column("flag", pa.bool_()),
        Column("small", pa.int32()),
        Column("big", pa.int64()),
        Column("ratio", pa.float64()),
        Column("price", pa.decimal128(10, 2)),
        Column("wide", pa.decimal128(38, 3)),
        Column("name", pa.string()),
        Column("at", TIMESTAMP),
        Column("day", pa.date32()),
        Column("raw", pa.binary()),
        Column("tags", pa.list_(pa.string())),
        Column("info", pa.struct([("a", pa.int64()), ("b", pa.float64())])),
        Column("address.city", pa.string()),
        Column("_secret", pa.string()),
    ),
    ("id",),
)


def _view(name: str, schema: Schema, parent: str | None = None, pairs: tuple[tuple[str, str], ...] = ()) -> View:
    return View(name, name, Scan(name, schema), schema, parent=parent, parent_key=pairs)


def _template() -> QueryTemplate:
    scan = Scan("Things", THINGS)
    condition = exp.And(
        this=exp.GTE(this=column("small"), expression=exp.Placeholder(this="least")),
        expression=exp.EQ(this=column("name"), expression=exp.Placeholder(this="name")),
    )
    items = tuple(Item(n, column(n), THINGS[n].type) for n in ("id", "small", "name"))
    plan = Project(Filter(scan, condition), items)
    parameters = (Parameter("least", pa.int32()), Parameter("name", pa.string()))
    return QueryTemplate("ThingsNamed", parameters, plan, plan.schema)


def catalog() -> Catalog:
    group = Input(
        "MonitoringGroup", "MonitoringGroup", InputKind.IMPORT, GROUP, ("groupid",), doc="Groups of machines."
    )
    views = (
        _view("MonitoringGroup.machines", MACHINES, "MonitoringGroup", (("groupid", "groupid"),)),
        _view("MonitoringGroup.hourReading", HOURS, "MonitoringGroup", (("groupid", "groupid"),)),
        _view("Things", THINGS),
        _view("_Private", THINGS),
    )
    latest = (Order(exp.column("time_hour", table="h", quoted=True), descending=True),)
    relationships = (
        Relationship(
            "MonitoringGroup", "lastHour", "MonitoringGroup.hourReading", (("groupid", "groupid"),), None, latest, 1
        ),
        Relationship(
            "MonitoringGroup", "lastHours", "MonitoringGroup.hourReading", (("groupid", "groupid"),), None, latest, 3
        ),
        Relationship(
            "MonitoringGroup",
            "warmHours",
            "MonitoringGroup.hourReading",
            (("groupid", "groupid"),),
            exp.GT(
                this=exp.column("avg_temp", table="h", quoted=True),
                expression=exp.Cast(this=exp.Literal.number("20"), to=exp.DataType.build("double")),
            ),
        ),
        Relationship("Things", "_hidden", "Things", (("id", "id"),)),
        Relationship("Things", "same", "Things", (("name", "name"),)),
    )
    return Catalog(
        {group.id: group},
        {v.id: v for v in views},
        relationships,
        {"ThingsNamed": _template()},
        public=frozenset({"MonitoringGroup", "Things", "MonitoringGroup.machines", "MonitoringGroup.hourReading"}),
    )


NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


def rows() -> dict[str, list[dict[str, Any]]]:
    groups = [(501, "Wenatchee Factory"), (502, None), (503, 'Käserei "Ö"\n'), (504, "")]
    hours = []
    for group in (501, 502):
        hours += [
            {"groupid": group, "time_hour": NOON - timedelta(hours=h), "avg_temp": 15 + h / 3, "max_temp": 30.5 + h}
            for h in range(40)
        ]
    return {
        "MonitoringGroup": [
            {"groupid": g, "groupName": n, UID: i, INGEST_TIME: NOON} for i, (g, n) in enumerate(groups)
        ],
        "MonitoringGroup.machines": [
            {"machineId": 1075, "machineName": "Mill Saw", "groupid": 501, "_index": 0},
            {"machineId": 1098, "machineName": "Wood Grinder", "groupid": 501, "_index": 1},
            {"machineId": 2**60, "machineName": None, "groupid": 502, "_index": 0},
        ],
        "MonitoringGroup.hourReading": hours,
        "Things": things(),
    }


def things() -> list[dict[str, Any]]:
    first = {
        "id": 1, "flag": True, "small": -5, "big": 2**62, "ratio": 0.1 + 0.2, "price": Decimal("12.30"),
        "wide": Decimal("-12345678901234567890123456789.125"), "name": "Ärger", "at": NOON + timedelta(microseconds=5),
        "day": date(2020, 2, 29), "raw": b"\x00\xff", "tags": ["a", None, 'q"'], "info": {"a": 1, "b": 2.5},
        "address.city": "Łódź", "_secret": "s",
    }  # fmt: skip
    nothing = dict.fromkeys(first) | {"id": 2}
    odd = nothing | {
        "id": 3, "ratio": math.nan, "price": Decimal("-0.05"), "wide": Decimal("0.001"), "name": "a_b%c",
        "at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "day": date(1969, 12, 31), "flag": False,
    }  # fmt: skip
    last = nothing | {
        "id": 4,
        "ratio": math.inf,
        "price": Decimal("0.00"),
        "name": "ärger",
        "small": 7,
        "wide": Decimal("5"),
    }
    low = nothing | {"id": 5, "ratio": -math.inf, "small": 7, "name": "ab", "price": Decimal("12.31")}
    return [first, nothing, odd, last, low]


def tables(catalog: Catalog) -> dict[str, StoredTable]:
    return {i: StoredTable(i, catalog.schema_of(i), fingerprint="example") for i in sorted(catalog.public)}


def arrow(table: StoredTable, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows with their `_key`."""
    key = table.schema.key or ()
    keyed = [r | {"_key": "/".join(str(r[k]) for k in key)} for r in rows]
    return pa.Table.from_pylist(keyed, schema=table.arrow)
