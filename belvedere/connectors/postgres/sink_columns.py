"""Columns of a sink's table with other types than those that the sink would give them: values go in as they are, or not at all.

In: a table that is there, the columns of events, a temporary table with the events in the sink's own types. Out: SQL that casts a column
into the type there; the first value that would be another one in it. The server itself casts, there and back. Of texts, which become
anything, the numbers and times are compared that they say.
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
_CASTS = "SELECT %s::regtype = %s::regtype OR EXISTS (SELECT FROM pg_cast WHERE castsource = %s::regtype AND casttarget = %s::regtype)"


@dataclass(frozen=True)
class Fit:
    """One column whose type there is another one."""

    name: str
    own: str
    theirs: str
    category: str
    """Category of the column's type, as in `pg_type`: N for numbers, D for times, S for texts."""
    base: str
    goes: bool
    comes: bool
    """Whether the server casts into the type there, and back; else values go by their texts."""

    @property
    def cast(self) -> sql.Composed:
        """The staged column, in the type there."""
        form = "CAST({} AS {})" if self.goes else "CAST(CAST({} AS text) AS {})"
        return sql.SQL(form).format(sql.Identifier("s", self.name), sql.SQL(self.theirs))

    @property
    def is_same(self) -> sql.Composed:
        """Whether the value there is what it was."""
        column = sql.Identifier("s", self.name)
        compared = self._compared
        if self.own != "text":
            back = "CAST({} AS {})" if self.comes else "CAST(CAST({} AS text) AS {})"
            return sql.SQL(f"{back} IS NOT DISTINCT FROM {{}}").format(self.cast, sql.SQL(self.own), column)
        if compared is None:  # its type takes such a text whole, or refuses it
            return sql.SQL("{} IS NOT NULL").format(self.cast)
        both = sql.SQL("CAST({} AS {k}) IS NOT DISTINCT FROM CAST({} AS {k})")
        return both.format(self.cast, column, k=sql.SQL(compared))

    @property
    def _compared(self) -> str | None:
        """The type in which a text and what became of it are compared."""
        if self.category == "D":
            return {"time": "time", "timetz": "timetz"}.get(self.base, "timestamptz")
        return {"N": "numeric", "S": "text"}.get(self.category)


def fits_of(connection: Connection, schema: str, table: str, columns: Iterable[tuple[str, str]]) -> Mapping[str, Fit]:
    """The columns (name, own type) that have another type in a table that is there."""
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
    """The first staged value that its column there would change or refuse; `number` is the column with the numbers of events."""
    for fit in fits:
        lost = _LossSearch(connection, stage, fit, where, number)
        found = lost.first()
        if found is not None:
            return UnfittingValue(fit.name, found[0], str(found[1]), fit.own, fit.theirs)
    return None


@dataclass(frozen=True)
class _LossSearch:
    """The search for the first value of a column that would be lost."""

    connection: Connection
    stage: sql.Identifier
    fit: Fit
    where: sql.Composable
    number: str

    def first(self) -> Sequence[Any] | None:
        try:
            return self._ask(self.fit.is_same, 0, 2**63 - 1)
        except psycopg.DataError:  # a value that the type there refuses: the server does not say which
            return self._refused()

    def _ask(self, is_same: sql.Composable, above: int, up_to: int) -> Sequence[Any] | None:
        text = sql.SQL(
            "SELECT s.{n}, CAST(s.{c} AS text) FROM {t} AS s WHERE s.{c} IS NOT NULL AND {w} AND s.{n} > {a} AND s.{n} <= {u}"
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
        with self.connection.transaction():  # a savepoint: what fails here ends nothing else
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
