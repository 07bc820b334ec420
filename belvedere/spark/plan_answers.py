"""Plans over relations whose rows are in memory, computed by Spark in batch.

In: a session, a script's catalog, which has the schemas. Out: a function from plans, and the rows of the relations that
they scan, to the rows of each plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.provenance.plan_queries import BySpark
from belvedere.spark.query_files import answer_plans
from belvedere.spark.session import SparkSession


def by_spark(session: Callable[[], SparkSession], catalog: Catalog) -> BySpark:
    """Return the function that computes plans; the session is requested with the first plan."""

    def answer(plans: Sequence[Node], rows: Mapping[str, pa.Table | Rows], now: datetime) -> list[pa.Table]:
        scans = {n.relation: n for p in plans for n in p.walk() if isinstance(n, Scan)}
        inputs = {i: Input(i, i, InputKind.TABLE, s.schema) for i, s in scans.items()}
        over = replace(catalog, inputs=inputs, views={}, relationships=(), templates={}, subscriptions={}, exports=())
        return answer_plans(session(), over, plans, rows, now)

    return answer
