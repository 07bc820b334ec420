"""The interface of databases for stores. It contains all differences between databases.

In: Arrow types, SQL of stored values, errors of drivers. Out: stored forms, SQL, diagnostics. One object of a subclass
is one dialect (`belvedere.store.dialects.DIALECTS`); all other code calls it and never checks its name. Its `Database`
creates connections. SQL that all databases share is elsewhere: quoted names, CREATE TABLE, joins. JSON is built by
string concatenation. It has no limit on the number of fields, keeps the JSON subtype through subqueries, and was
measured a third faster than SQLite's JSON functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from belvedere.errors import BelvedereError
from belvedere.schema import MONTHS
from belvedere.store.dialects.faults import FaultRule, fault
from belvedere.store.dialects.stored_form import StoredForm, TypeNames, is_text
from belvedere.store.read.query import Operator, Role, Sort
from belvedere.store.read.shared_sets import Sets

types = pa.types


Made = tuple[tuple[str, ...], Callable[[tuple[str, ...]], str]]
"""Aggregates of the database, and a function that computes a stored value from them.

The function maps the SQL of their results to the SQL of the value.
"""


@dataclass(frozen=True)
class Patterns:
    """Pattern syntax to which a dialect translates LIKE: that of a case-sensitive operator that ignores the locale."""

    many: str
    one: str
    special: str
    """Characters that need `escaped`."""
    escaped: str
    whole: str
    unsaid: str = ""
    """Characters that a pattern cannot contain."""


@dataclass(frozen=True)
class Pair:
    """Two columns to compare, as SQL, with their type. `with_nulls`: both can be NULL, and NULLs are equal."""

    own: str
    other: str
    with_nulls: bool
    type: str


class Dialect(ABC):
    """A database's SQL. It works on values in their stored form, see `belvedere.store.dialects.codec`."""

    name: ClassVar[str]
    names: ClassVar[TypeNames]
    patterns: ClassVar[Patterns]
    comparisons: ClassVar[Mapping[Operator, str]]
    """Spelling of operators that differ from standard SQL."""
    faults: ClassVar[tuple[FaultRule, ...]]
    clock: ClassVar[str]
    """SQL of the epoch's clock as a timestamp; `{}` is its stored form."""
    lies_by_number: ClassVar[bool] = False
    """Whether an integer primary key determines the physical order of a table."""
    near: ClassVar[bool] = False
    """Whether a read takes less time than passing it to another thread."""
    first_start: ClassVar[tuple[str, ...]] = ()
    """Statements at the start of a transaction that creates the store's own tables.

    Without them, two concurrent first starts would collide.
    """
    for_lease: ClassVar[str | None] = None
    """Statement that prevents others from taking the lease, if its row may not exist and so cannot be locked."""
    fence: ClassVar[str]
    """End of a subquery whose conditions are tested before those of the outer query."""
    for_reads: ClassVar[str] = "BEGIN"
    """Statement that begins a transaction whose reads see one state."""
    for_update: ClassVar[str] = ""
    """End of a SELECT that locks its rows; empty if a transaction locks everything."""

    # stored forms

    @abstractmethod
    def native(self, type_: pa.DataType) -> StoredForm | None:
        """Return the form of a type that the database supports natively or in a special way, or None for the common
        form."""

    @abstractmethod
    def stored(self, value: Any, type_: pa.DataType, role: Role) -> Any:
        """Check that a client's value is of the type, and return it as a value to bind.

        Raises ValueError if it is not.
        """

    def escape(self, text: str) -> str:
        """Return a text in its stored form."""
        return text

    def unescape(self, text: str) -> str:
        """Convert a stored text back."""
        return text

    # placeholders

    @abstractmethod
    def marker(self, number: int) -> str:
        """Return the placeholder of the parameter `number`, counted from 1 in the order of the statement."""

    def bound(self, marker: str, type_: pa.DataType) -> str:
        """Return a placeholder as a value that compares with a column of the type."""
        return marker

    def from_stored_text(self, marker: str, type_: pa.DataType) -> str:
        """Return a placeholder for a value that `stored_text` produced."""
        return marker

    # values as text

    def json_text(self, sql: str, type_: pa.DataType) -> str:
        """Return the value as JSON text, never NULL. NULL, NaN and infinities become `null`."""
        if is_text(type_):
            return self.json_string(sql)
        text = self._duration(sql, type_) if types.is_duration(type_) else self.plain_text(sql, type_)
        if (
            types.is_timestamp(type_)
            or types.is_duration(type_)
            or types.is_date(type_)
            or types.is_decimal(type_)
            or is_binary(type_)
        ):
            text = f"""'"'||{text}||'"'"""
        return f"coalesce({text},'null')"

    def _duration(self, number: str, type_: pa.DataType) -> str:
        """Return an ISO 8601 duration from months or microseconds."""
        if type_ != MONTHS:
            return self._interval(number)
        return f"CASE WHEN {number}<0 THEN '-P' ELSE 'P' END||abs({number}/12)||'Y'||abs({number}%12)||'M'"

    def _interval(self, micros: str) -> str:
        """Format microseconds as `belvedere.values.intervals.iso_text` does. Both databases divide towards zero."""
        sign = f"CASE WHEN {micros}<0 THEN '-P' ELSE 'P' END"
        parts = [f"abs({micros}/{unit}{f'%{most}' if most else ''})" for unit, most in _PARTS]
        rest = f"CASE WHEN {micros}%1000000=0 THEN '' ELSE '.'||{self.six_digits(f'abs({micros}%1000000)')} END"
        days, hours, minutes, seconds = parts
        return f"{sign}||{days}||'DT'||{hours}||'H'||{minutes}||'M'||{seconds}||{rest}||'S'"

    @abstractmethod
    def json_string(self, sql: str) -> str:
        """Return a string as JSON text, never NULL."""

    @abstractmethod
    def plain_text(self, sql: str, type_: pa.DataType) -> str:
        """Return any other value as the text of JSON, without quotes. NULL, NaN and infinities become NULL."""

    def readable(self, sql: str, type_: pa.DataType) -> str:
        """Return the value in a form that other tools can read, in the database's own type if it has one."""
        return sql

    @abstractmethod
    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        """Return the stored value as JSON text from which a cursor binds it again exactly; never NULL."""

    @abstractmethod
    def taken_back(self, value: Any, type_: pa.DataType) -> Any:
        """Return a value that `stored_text` produced, as a value to bind.

        Raises TypeError or ValueError for other values.
        """

    @abstractmethod
    def member(self, sql: str, path: Sequence[str]) -> str:
        """Return the stored JSON text at a path of names in an object; NULL for `null` and for missing members."""

    @abstractmethod
    def member_value(self, sql: str, name: str, type_: pa.DataType) -> str | None:
        """Return a member of an object in a column, in the stored form of its type, or None if the database cannot
        express it."""

    @abstractmethod
    def array(self, row: str) -> str:
        """Return the JSON texts of all rows as one JSON array."""

    @abstractmethod
    def six_digits(self, number: str) -> str:
        """Return a number below a million as six digits."""

    @abstractmethod
    def hexadecimal(self, sql: str) -> str:
        """Return a text's UTF-8 in hexadecimal."""

    # comparisons

    def column(self, sql: str, type_: pa.DataType) -> str:
        """Return a column in the form in which it is compared and sorted: by Spark's rules, not by a locale's."""
        return sql

    def compare(self, operator: Operator, column: str, value: str) -> str:
        """Return a comparison with SQL's own operator, unless `comparisons` overrides it."""
        return self.comparisons.get(operator, f"{{column}}{operator}{{value}}").format(column=column, value=value)

    @abstractmethod
    def same(self, left: str, right: str) -> str:
        """Return an equality in which NULLs are equal."""

    def is_among(self, pairs: Sequence[Pair], rows: str, sets: Sets, negated: bool) -> str:
        """Return a test whether `rows` (FROM text) contain a row that is equal by these columns, or none.

        `sets` shares the values if needed.
        """
        return f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {rows} WHERE {' AND '.join(map(self.equal, pairs))})"

    def equal(self, pair: Pair) -> str:
        """Return the equality of both columns."""
        return self.same(pair.own, pair.other) if pair.with_nulls else f"{pair.own}={pair.other}"

    @abstractmethod
    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        """Return one key of ORDER BY. Without NULLs it does not specify their place, so an index can give the order."""

    @abstractmethod
    def least(self, left: str, right: str) -> str:
        """Return the smaller number."""

    # expressions

    @abstractmethod
    def boolean(self, value: bool) -> str:
        """Return a boolean literal."""

    @abstractmethod
    def decimal(self, unscaled: int, type_: pa.DataType) -> str:
        """Return the literal `unscaled` / 10^scale of a decimal type that holds it."""

    def comparable_decimal(self, sql: str, type_: pa.DataType, digits: int, scale: int) -> str:
        """Return a stored decimal or integer with enough digits to compare it with another one."""
        return sql

    @abstractmethod
    def instant(self, microseconds: int) -> str:
        """Return a literal timestamp from microseconds since 1970 in UTC."""

    @abstractmethod
    def day(self, days: int) -> str:
        """Return a literal date from the days since 1970."""

    @abstractmethod
    def shifted(self, sql: str, operator: str, microseconds: int) -> str:
        """Return a timestamp shifted by `microseconds` later (`+`) or earlier (`-`)."""

    @abstractmethod
    def widened(self, sql: str, type_: pa.DataType) -> str:
        """Return an integer as a wider integer type, or as a double."""

    def whole(self, sql: str, type_: pa.DataType) -> str:
        """Return integer arithmetic that fails if the result overflows the type."""
        return sql

    @abstractmethod
    def mean(self, sql: str, type_: pa.DataType) -> str:
        """Return the average of decimals as in Spark: with four more digits, rounded half away from zero."""

    @abstractmethod
    def total(self, function: str, sql: str, type_: pa.DataType) -> str:
        """Return `sum` or `avg` of integers or doubles, or `sum` of decimals of up to 18 digits as a decimal of ten
        digits more."""

    def extreme(self, function: str, sql: str, type_: pa.DataType) -> str:
        """Return `min` or `max` by Spark's order."""
        return f"{function}({self.column(sql, type_)})"

    @abstractmethod
    def decimal_sum(self, sql: str, type_: pa.DataType) -> Made:
        """Return the sum of decimals of any number of digits, as a decimal of ten digits more, 38 at most."""

    @abstractmethod
    def decimal_mean(self, sql: str, type_: pa.DataType) -> Made:
        """Return the average of decimals of any number of digits, as `mean` does, with 38 digits at most."""

    # failures

    def fault(self, error: Exception, url: str, doing: str = "") -> BelvedereError:
        """Return the diagnostic for a driver's error."""
        return fault(error, self.faults, url, doing)

    @contextmanager
    def guarded(self, url: str, errors: tuple[type[Exception], ...], doing: str = "") -> Iterator[None]:
        """Turn a driver's `errors` into diagnostics."""
        try:
            yield
        except errors as error:
            raise self.fault(error, url, doing) from error


_PARTS = ((86_400_000_000, 0), (3_600_000_000, 24), (60_000_000, 60), (1_000_000, 60))
"""Microseconds of days, hours, minutes and seconds, and the number of each in the next larger unit."""
DIGITS_MOST = 38
"""Maximum number of digits of a decimal."""
MEAN_DIGITS = 4
"""Number of additional digits of an average of decimals (Spark's `Average`)."""


def is_binary(type_: pa.DataType) -> bool:
    """Return whether values are bytes."""
    return bool(types.is_binary(type_) or types.is_large_binary(type_))


def null_order(sort: Sort) -> str:
    """Return the end of a key of ORDER BY that places NULLs."""
    return f"{' DESC' if sort.descending else ''} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"


def literal(text: str) -> str:
    """Return a string literal. All dialects accept standard strings (Postgres: `standard_conforming_strings`)."""
    return "'" + text.replace("'", "''") + "'"


_MAX_CHAIN_LENGTH = 100


def concatenation(parts: Sequence[str]) -> str:
    """Return `||` without needless brackets.

    SQLite limits an expression's depth to 1000, and its parser's stack to 100.
    """
    if len(parts) <= _MAX_CHAIN_LENGTH:
        return "||".join(parts)
    chunks = [parts[i : i + _MAX_CHAIN_LENGTH] for i in range(0, len(parts), _MAX_CHAIN_LENGTH)]
    return "||".join(f"({'||'.join(chunk)})" for chunk in chunks)


def joined(operator: str, parts: Sequence[str], empty: str) -> str:
    """Join many parts in brackets. Without these, SQLite nests an expression as deep as it has parts."""
    if not parts:
        return empty
    if len(parts) > _MAX_CHAIN_LENGTH:
        chunks = [parts[i : i + _MAX_CHAIN_LENGTH] for i in range(0, len(parts), _MAX_CHAIN_LENGTH)]
        return joined(operator, [joined(operator, chunk, empty) for chunk in chunks], empty)
    return parts[0] if len(parts) == 1 else "(" + operator.join(parts) + ")"
