"""Lossless writes to columns of a sink's table with other types than the sink would create.

In: an existing table, the columns of events, a temporary table with the events in the sink's own types. Out: SQL that
casts a column to the table's type; the first value that the cast would change. The server itself casts, in both
directions. Every value has a text, so for text columns the numbers and times in the texts are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import psycopg
from psycopg import sql

from belvedere.connectors.exporting.sink_values import UnfittingValue

Connection: TypeAlias = psycopg.Connection[Any]
_LONG_NAMES = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}
_THERE = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typcategory, t.typname
FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass(format('%%I.%%I', %s::text, %s::text)) AND a.attnum > 0 AND NOT a.attisdropped
"""
_CASTS = (
    "SELECT %s::regtype = %s::regtype OR EXISTS (SELECT FROM pg_cast WHERE castsource = %s::regtype AND "
    "casttarget = %s::regtype)"
)


@dataclass(frozen=True)
class Fit:
    """One column that has another type in the table."""

    name: str
    own: str
    theirs: str
    category: str
    """Category of the column's type, as in `pg_type`: N for numbers, D for times, S for texts."""
    base: str
    goes: bool
    comes: bool
    """Whether the server casts to the table's type, and back; otherwise values are written as texts."""

    @property
    def cast(self) -> sql.Composed:
        """Return the staged column, cast to the table's type."""
        form = "CAST({} AS {})" if self.goes else "CAST(CAST({} AS text) AS {})"
        return sql.SQL(form).format(sql.Identifier("s", self.name), sql.SQL(self.theirs))

    @property
    def is_same(self) -> sql.Composed:
        """Return the condition that the cast does not change the value."""
        column = sql.Identifier("s", self.name)
        compared = self._compared
        if self.own != "text":
            back = "CAST({} AS {})" if self.comes else "CAST(CAST({} AS text) AS {})"
            return sql.SQL(f"{back} IS NOT DISTINCT FROM {{}}").format(self.cast, sql.SQL(self.own), column)
        if compared is None:  # its type stores such a text unchanged, or rejects it
            return sql.SQL("{} IS NOT NULL").format(self.cast)
        both = sql.SQL("CAST({} AS {k}) IS NOT DISTINCT FROM CAST({} AS {k})")
        return both.format(self.cast, column, k=sql.SQL(compared))

    @property
    def _compared(self) -> str | None:
        """Return the type in which a value and its text are compared."""
        if self.category == "D":
            return {"time": "time", "timetz": "timetz"}.get(self.base, "timestamptz")
        return {"N": "numeric", "S": "text"}.get(self.category)


def fits_of(connection: Connection, schema: str, table: str, columns: Iterable[tuple[str, str]]) -> Mapping[str, Fit]:
    """Return the columns (name, own type) that have another type in an existing table."""
    there = {name: found for name, *found in connection.execute(_THERE, (schema, table))}
    fits = {}
    for name, own in columns:
        theirs, category, base = there.get(name, ("", "", ""))
        if theirs and theirs != _LONG_NAMES.get(own, own):
            goes, comes = (_is_castable(connection, *pair) for pair in ((own, theirs), (theirs, own)))
            fits[name] = Fit(name, own, theirs, category, base, goes, comes)
    return fits


def _is_castable(connection: Connection, own: str, theirs: str) -> bool:
    found = connection.execute(_CASTS, (own, theirs, own, theirs)).fetchone()
    return bool(found and found[0])


def misfit_of(
    connection: Connection, stage: sql.Identifier, fits: Iterable[Fit], where: sql.Composable, number: str
) -> UnfittingValue | None:
    """Return the first staged value that its column would change or reject; `number` is the column of event numbers."""
    for fit in fits:
        lost = _LossSearch(connection, stage, fit, where, number)
        found = lost.first()
        if found is not None:
            return UnfittingValue(fit.name, found[0], str(found[1]), fit.own, fit.theirs)
    return None


@dataclass(frozen=True)
class _LossSearch:
    """Search for the first value of a column that a cast would change."""

    connection: Connection
    stage: sql.Identifier
    fit: Fit
    where: sql.Composable
    number: str

    def first(self) -> Sequence[Any] | None:
        try:
            return self._ask(self.fit.is_same, 0, 2**63 - 1)
        except psycopg.DataError:  # the type rejects a value, and the server does not report which
            return self._refused()

    def _ask(self, is_same: sql.Composable, above: int, up_to: int) -> Sequence[Any] | None:
        text = sql.SQL(
            "SELECT s.{n}, CAST(s.{c} AS text) FROM {t} AS s "
            "WHERE s.{c} IS NOT NULL AND {w} AND s.{n} > {a} AND s.{n} <= {u}"
            " AND NOT ({same}) ORDER BY s.{n} LIMIT 1"
        ).format(
            n=sql.Identifier(self.number),
            c=sql.Identifier(self.fit.name),
            t=self.stage,
            w=self.where,
            a=sql.Literal(above),
            u=sql.Literal(up_to),
            same=is_same,
        )
        with self.connection.transaction():  # a savepoint: an error here does not end the outer transaction
            return self.connection.execute(text).fetchone()

    def _refused(self) -> Sequence[Any] | None:
        edges = sql.SQL("SELECT min({n}) - 1, max({n}) FROM {t}").format(n=sql.Identifier(self.number), t=self.stage)
        low, high = self.connection.execute(edges).fetchone() or (0, 0)
        while high - low > 1:
            middle = (low + high) // 2
            try:
                if (found := self._ask(self.fit.is_same, low, middle)) is not None:
                    return found
                low = middle
            except psycopg.DataError:
                high = middle
        return self._ask(sql.SQL("FALSE"), low, high)
