"""A shop of several tenants, its roles, and stores with its rows: everything, or without what a role may not see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from belvedere.catalog.access import Access
from belvedere.catalog.catalog import Catalog
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import read_project
from belvedere.store import EpochRow, StoredTable, open_store
from belvedere.store.dialects import DIALECTS
from belvedere.store.read.computed_views import computed_table

SCRIPT = """
CREATE TABLE Customers (id BIGINT NOT NULL, tenant STRING, name STRING, email STRING, level INT, PRIMARY KEY (id));
CREATE TABLE Orders (id BIGINT NOT NULL, customer BIGINT, tenant STRING, amount DECIMAL(10,2), pieces BIGINT,
    at TIMESTAMP,
                     PRIMARY KEY (id));
CREATE TABLE Secrets (id BIGINT NOT NULL, text STRING, PRIMARY KEY (id));
Totals := SELECT tenant, count(*) AS orders FROM Orders GROUP BY tenant;
/*+ at_read */
Large := SELECT id, tenant, amount FROM Orders WHERE amount > 20;
Customers.orders := JOIN Orders o ON o.customer = _.id ORDER BY o.at DESC;
Customers.last := JOIN Orders o ON o.customer = _.id ORDER BY o.at DESC LIMIT 2;
Customers.above(least INT) := SELECT * FROM Orders o WHERE o.customer = this.id AND o.pieces > :least;
Customers.peers := JOIN Customers c ON c.email = _.email;
Orders.buyer := JOIN Customers c ON c.id = _.customer;
Customers.secrets := JOIN Secrets s ON s.id = _.id;
OrdersOf(name STRING) := SELECT o.id, o.amount, c.name FROM Orders o JOIN Customers c ON c.id = o.customer
    WHERE c.name = :name;
Counts := SELECT * FROM Totals;
PerLevel(least INT) := SELECT c.level, count(*) AS n, sum(o.pieces) AS pieces FROM Customers c
    LEFT JOIN Orders o ON o.customer = c.id
    WHERE c.level >= :least GROUP BY c.level;
LargeOf(least BIGINT) := SELECT id, amount FROM Large WHERE id >= :least;
Products(factor BIGINT) := SELECT id FROM Orders WHERE pieces * :factor > 5;
Mailed(email STRING) := SELECT id FROM Customers WHERE email = :email;
NewOrders := SUBSCRIBE SELECT id, tenant, amount FROM Orders;
"""
ROLES = """
[roles.tenant]
rights = ["read", "status"]
views = ["Customers", "Orders", "Large", "NewOrders", "OrdersOf", "PerLevel", "LargeOf", "Products"]
[roles.tenant.hidden]
Customers = ["email"]
[roles.tenant.rows]
Customers = "tenant = claim('tenant')"
Orders = "tenant = claim('tenant')"
Large = "tenant = claim('tenant')"
NewOrders = "tenant = claim('tenant')"

[roles.low]
views = ["Customers", "Orders"]
[roles.low.rows]
Customers = "level <= claim('level') AND tenant IS NOT NULL"
Orders = "NOT (pieces > claim('app.pieces')) OR claim('all')"

[roles.keyless]
views = ["Customers", "Orders"]
hidden = { Customers = ["id"], Orders = ["tenant"] }

[roles.all]
views = ["Customers", "Orders", "Secrets", "Totals", "Large", "NewOrders"]

[roles.pusher]
pushes = ["Orders"]

[roles.nobody]
rights = []
"""
TENANTS = ("red", "blue", "grün", None)
TENANT: Mapping[str, Any] = {"tenant": "red"}
NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


@cache
def catalog(script: str = SCRIPT, roles: str = ROLES) -> Catalog:
    """The script with its roles. Raises where a diagnostic is an error."""
    file = Path("/nowhere/belvedere.toml")
    project = read_project(roles, file.parent, file, {})
    compiled = compile_script(script, project=project)
    assert compiled.ok, compiled.diagnostics
    assert not project.diagnostics, project.diagnostics
    return compiled.catalog


def rows() -> dict[str, list[dict[str, Any]]]:
    """The rows of each relation, those of views as the script defines them."""
    fixed = {"_ingest_time": NOON}
    customers = [
        {
            "id": n,
            "tenant": TENANTS[n % 4],
            "name": f"name{n % 3}",
            "email": f"e{n % 5}@x",
            "level": n % 4 or None,
            "_uid": n,
            **fixed,
        }
        for n in range(12)
    ]
    orders = [
        {
            "id": 100 + n, "customer": n * 7 % 13, "tenant": TENANTS[n * 7 % 13 % 4] if n % 5 else TENANTS[n % 4],
            "_uid": n, **fixed,
            "amount": Decimal(n * 3) / 2, "pieces": n % 6 if n % 7 else None, "at": NOON + timedelta(minutes=n % 9),
        }
        for n in range(30)
    ]  # fmt: skip
    orders.append(
        {
            "id": 999,
            "customer": 1,
            "tenant": "blue",
            "amount": Decimal(99),
            "pieces": 2**62,
            "at": NOON,
            "_uid": 99,
            **fixed,
        }
    )
    tenants = {o["tenant"] for o in orders}
    events = [
        {**{c: o[c] for c in ("id", "tenant", "amount")}, "_op": "ADD", "_event_time": NOON, "_seq": n}
        for n, o in enumerate(orders, 1)
    ]
    return {
        "Customers": customers,
        "Orders": orders,
        "Secrets": [{"id": 1, "text": "s", "_uid": 1, **fixed}],
        "Totals": [{"tenant": t, "orders": sum(o["tenant"] == t for o in orders)} for t in tenants],
        "NewOrders": events,
    }


def tables(of: Catalog, dialect: str) -> dict[str, StoredTable]:
    """What is stored, and what the database computes."""
    kept = {
        i: StoredTable(i, of.schema_of(i), fingerprint="example")
        for i in of.public
        if i not in of.placement.at_read and "LATE" not in i
    }
    return kept | {i: computed_table(of, i, plan, DIALECTS[dialect]) for i, plan in of.placement.at_read.items()}


def fill(url: str, given: Mapping[str, list[dict[str, Any]]], of: Catalog | None = None) -> None:
    """Make a store with these rows."""
    store = open_store(url)
    made = tables(of or catalog(), "postgres" if url.startswith("postgres") else "sqlite")
    store.create(list(made.values()))
    store.acquire("test", 600)
    transaction = store.begin()
    for name, found in given.items():
        table = made[name]
        key = table.schema.key or ()
        keyed = [{c: (r | {"_key": "/".join(str(r[k]) for k in key)}).get(c) for c in table.arrow.names} for r in found]
        transaction.append(name, pa.Table.from_pylist(keyed, schema=table.arrow).to_reader())
    transaction.commit(EpochRow(1, NOON, extra={"sequences": {"NewOrders": 1 + len(given.get("NewOrders", ()))}}))
    store.release("test")
    store.close()


def without_roles(of: Catalog) -> Catalog:
    return replace(of, access=Access())
