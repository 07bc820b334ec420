"""Finds the row on which an expression failed.

In: the failed query, over temporary views, and a view of its input rows. Out: the last row of the shortest prefix of
these rows that fails alone: the row with a zero divisor, or the row with which a sum overflows. This is only done after
a failed epoch, and for few rows. A row that cannot be found is left out of the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from belvedere.engine.relation import Relation, name_in_script
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.sql.stage_sql import PreparedStage, view_name
from belvedere.schema import WEIGHT

MAX_ROWS = 100_000
"""Maximum number of rows in which a row is searched."""
MAX_VALUE_LENGTH = 60
"""Maximum number of characters of a value that are shown."""


class QueriedViews(Protocol):
    """The views of an epoch in Spark, and the failed query over them."""

    spark: SparkSession
    last_query: str

    def view_name(self, name: str) -> str:
        """Return the temporary view's name in the session."""

    def put(self, name: str, rows: Rows) -> None:
        """Create the view `name` of these rows."""


def describe_failing_row(prepared: PreparedStage, views: QueriedViews) -> str | None:
    """Return the row as text, with the name of its relation; None if it is not known."""
    sql = _from_changes(prepared, views.last_query)
    try:
        for relation, name in _views(prepared, views, sql):
            rows = views.spark.table(views.view_name(name)).limit(MAX_ROWS + 1).toArrow()
            found = _last_needed(rows, _probe(sql, name, views)) if rows.num_rows <= MAX_ROWS else None
            if found is not None:
                return _described(rows, found, relation)
    except (PySparkException, Py4JJavaError, pa.ArrowException):
        return None  # the failure itself is what matters
    return None


def _from_changes(prepared: PreparedStage, sql: str) -> str:
    """Return the query with the earlier computation over the changes inlined."""
    before = prepared.sql.get("with")
    if before is None or sql.startswith(before):
        return sql
    return f"{before}, {sql.removeprefix('WITH ')}" if sql.startswith("WITH ") else f"{before} {sql}"


def _views(prepared: PreparedStage, views: QueriedViews, sql: str) -> Iterator[tuple[Relation, str]]:
    """Yield the views of slots in the query, those of changes first."""
    for kind in ("delta", "rows", "following"):
        for slot, relation in prepared.slots:
            name = view_name(prepared.number, slot.name, kind)
            if f"`{views.view_name(name)}`" in sql:
                yield relation, name


def _probe(sql: str, name: str, views: QueriedViews) -> Callable[[pa.Table], bool]:
    def fails(rows: pa.Table) -> bool:
        views.put(name, Rows(rows))
        try:
            views.spark.sql(sql).toArrow()
        except (PySparkException, Py4JJavaError):
            return True
        return False

    return fails


def _last_needed(rows: pa.Table, fails: Callable[[pa.Table], bool]) -> int | None:
    """Return the index of the last row of the shortest prefix that fails, or None if these rows are not the cause."""
    if fails(rows.slice(0, 0)) or not fails(rows):
        return None
    low, high = 0, int(rows.num_rows)  # the first `low` rows are fine, the first `high` fail
    while high - low > 1:
        middle = (low + high) // 2
        if fails(rows.slice(0, middle)):
            high = middle
        else:
            low = middle
    return high - 1


def _described(rows: pa.Table, index: int, relation: Relation) -> str:
    row = rows.slice(index, 1).to_pylist()[0]
    shown = [c for c in relation.schema if not c.hidden] or list(relation.schema)
    gone = " (that goes)" if row.get(WEIGHT, 1) < 0 else ""
    owner = name_in_script(relation.view or relation.name)
    return f'row of "{owner}"{gone}: {", ".join(_values((c.name, row[c.name]) for c in shown))}'


def _values(pairs: Iterable[tuple[str, object]]) -> Iterator[str]:
    for name, value in pairs:
        text = "NULL" if value is None else repr(value) if isinstance(value, str) else str(value)
        yield f"{name} = {text if len(text) <= MAX_VALUE_LENGTH else text[:MAX_VALUE_LENGTH] + '...'}"
