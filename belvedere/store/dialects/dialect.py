"""The interface of databases for stores: all differences between databases are here.

In: Arrow types, SQL of stored values, errors of drivers. Out: stored forms, SQL, diagnostics. One object of a subclass
is one dialect (`belvedere.store.dialects.DIALECTS`); all other code calls it and never checks its name. Its `Database`
creates connections. SQL that all databases share is elsewhere: quoted names, CREATE TABLE, joins. JSON is built by
string concatenation: that has no limit on the number of fields, keeps the JSON subtype through subqueries, and was
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
"""Aggregates of the database, and a stored value as SQL over SQL that reads them."""


@dataclass(frozen=True)
class Patterns:
    """How a dialect writes the pattern of LIKE: as one of an operator that minds case, whatever the locale."""

    many: str
    one: str
    special: str
    """The characters that need `escaped`."""
    escaped: str
    whole: str
    unsaid: str = ""
    """Characters that no pattern may have."""


@dataclass(frozen=True)
class Pair:
    """A column and one of other rows, as SQL, that are compared, of a type; `with_nulls`: both may be NULL, which is equal."""

    own: str
    other: str
    with_nulls: bool
    type: str


class Dialect(ABC):
    """A database's ways. SQL texts are of values in their stored form, see `belvedere.store.dialects.codec`."""

    name: ClassVar[str]
    names: ClassVar[TypeNames]
    patterns: ClassVar[Patterns]
    comparisons: ClassVar[Mapping[Operator, str]]
    """How operators are said that are not SQL's own."""
    faults: ClassVar[tuple[FaultRule, ...]]
    clock: ClassVar[str]
    """The epoch's clock as a timestamp, of its stored form `{}`."""
    lies_by_number: ClassVar[bool] = False
    """Whether a table lies in the order of a primary key that is a whole number."""
    near: ClassVar[bool] = False
    """Whether a read takes less time than handing it to another thread."""
    first_start: ClassVar[tuple[str, ...]] = ()
    """Statements at the start of a transaction that creates the store's own tables: two concurrent first starts would
    collide.
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
        """The form of a type that the database has itself, or keeps in its own way; None for the common form."""

    @abstractmethod
    def stored(self, value: Any, type_: pa.DataType, role: Role) -> Any:
        """A client's value, checked to be one of the type, as it is bound. Raises ValueError where it cannot be."""

    def escape(self, text: str) -> str:
        """A text as it is stored."""
        return text

    def unescape(self, text: str) -> str:
        """The inverse of `escape`."""
        return text

    # placeholders

    @abstractmethod
    def marker(self, number: int) -> str:
        """The placeholder of the parameter `number`, from 1 on, in the order of the statement."""

    def bound(self, marker: str, type_: pa.DataType) -> str:
        """A placeholder as a value that compares with a column of the type."""
        return marker

    def from_stored_text(self, marker: str, type_: pa.DataType) -> str:
        """A placeholder for a value that `stored_text` gave out."""
        return marker

    # values as text

    def json_text(self, sql: str, type_: pa.DataType) -> str:
        """The value as JSON text, never NULL: NULL, NaN and infinities are `null`."""
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
        """As ISO 8601 writes it: months, or microseconds."""
        if type_ != MONTHS:
            return self._interval(number)
        return f"CASE WHEN {number}<0 THEN '-P' ELSE 'P' END||abs({number}/12)||'Y'||abs({number}%12)||'M'"

    def _interval(self, micros: str) -> str:
        """Microseconds as `belvedere.values.intervals.iso_text` writes them: both databases divide towards zero."""
        sign = f"CASE WHEN {micros}<0 THEN '-P' ELSE 'P' END"
        parts = [f"abs({micros}/{unit}{f'%{most}' if most else ''})" for unit, most in _PARTS]
        rest = f"CASE WHEN {micros}%1000000=0 THEN '' ELSE '.'||{self.six_digits(f'abs({micros}%1000000)')} END"
        days, hours, minutes, seconds = parts
        return f"{sign}||{days}||'DT'||{hours}||'H'||{minutes}||'M'||{seconds}||{rest}||'S'"

    @abstractmethod
    def json_string(self, sql: str) -> str:
        """A string as JSON text, never NULL."""

    @abstractmethod
    def plain_text(self, sql: str, type_: pa.DataType) -> str:
        """Any other value as the text of JSON, without quotes; NULL for NULL, NaN and infinities."""

    def readable(self, sql: str, type_: pa.DataType) -> str:
        """The value as other tools read it, in the database's own type where it has one."""
        return sql

    @abstractmethod
    def stored_text(self, sql: str, type_: pa.DataType) -> str:
        """The stored value as JSON text from which a cursor binds it again exactly; never NULL."""

    @abstractmethod
    def taken_back(self, value: Any, type_: pa.DataType) -> Any:
        """A value that `stored_text` gave out, as it is bound. Raises TypeError or ValueError for one that it never gives out."""

    @abstractmethod
    def member(self, sql: str, path: Sequence[str]) -> str:
        """The JSON text, as it is stored, of what a path of names leads to in an object; NULL for `null` and where nothing is."""

    @abstractmethod
    def member_value(self, sql: str, name: str, type_: pa.DataType) -> str | None:
        """A member of the object that a column holds, in the stored form of its type; None where the database cannot say it."""

    @abstractmethod
    def array(self, row: str) -> str:
        """All rows' JSON texts as one JSON array."""

    @abstractmethod
    def six_digits(self, number: str) -> str:
        """A number below a million as six digits."""

    @abstractmethod
    def hexadecimal(self, sql: str) -> str:
        """A text's UTF-8 in hexadecimal."""

    # comparisons

    def column(self, sql: str, type_: pa.DataType) -> str:
        """A column as it is compared and ordered: by Spark's rules, not by a locale's."""
        return sql

    def compare(self, operator: Operator, column: str, value: str) -> str:
        """A comparison: by SQL's own operator, where `comparisons` does not say it otherwise."""
        return self.comparisons.get(operator, f"{{column}}{operator}{{value}}").format(column=column, value=value)

    @abstractmethod
    def same(self, left: str, right: str) -> str:
        """Equality that holds between NULLs."""

    def is_among(self, pairs: Sequence[Pair], rows: str, sets: Sets, negated: bool) -> str:
        """Return a test whether FROM rows have a row that is equal by these columns, or none; in one of `sets` if
        needed.
        """
        return f"{'NOT ' if negated else ''}EXISTS (SELECT 1 FROM {rows} WHERE {' AND '.join(map(self.equal, pairs))})"

    def equal(self, pair: Pair) -> str:
        """That both columns are equal."""
        return self.same(pair.own, pair.other) if pair.with_nulls else f"{pair.own}={pair.other}"

    @abstractmethod
    def order(self, column: str, sort: Sort, nullable: bool = True) -> str:
        """One key of ORDER BY; without NULLs nothing is said of their place, so that an index can give the order."""

    @abstractmethod
    def least(self, left: str, right: str) -> str:
        """The smaller number."""

    # expressions

    @abstractmethod
    def boolean(self, value: bool) -> str:
        """A literal."""

    @abstractmethod
    def decimal(self, unscaled: int, type_: pa.DataType) -> str:
        """The literal `unscaled` / 10^scale of a decimal type that holds it."""

    def comparable_decimal(self, sql: str, type_: pa.DataType, digits: int, scale: int) -> str:
        """Return a stored decimal or whole number in a form that can be compared with another: with digits that hold
        both.
        """
        return sql

    @abstractmethod
    def instant(self, microseconds: int) -> str:
        """A literal timestamp, since 1970 in UTC."""

    @abstractmethod
    def day(self, days: int) -> str:
        """Return a literal date from the days since 1970."""

    @abstractmethod
    def shifted(self, sql: str, operator: str, microseconds: int) -> str:
        """A timestamp, so much later (`+`) or earlier (`-`)."""

    @abstractmethod
    def widened(self, sql: str, type_: pa.DataType) -> str:
        """An integer as one of a wider type, or as a double."""

    def whole(self, sql: str, type_: pa.DataType) -> str:
        """Integer arithmetic, which fails where the result is beyond the type."""
        return sql

    @abstractmethod
    def mean(self, sql: str, type_: pa.DataType) -> str:
        """The average of decimals as Spark has it: with four more digits, halves away from zero."""

    @abstractmethod
    def total(self, function: str, sql: str, type_: pa.DataType) -> str:
        """`sum` or `avg` of integers or doubles; `sum` of decimals of up to 18 digits, as a decimal of ten digits more."""

    def extreme(self, function: str, sql: str, type_: pa.DataType) -> str:
        """`min` or `max` by Spark's order."""
        return f"{function}({self.column(sql, type_)})"

    @abstractmethod
    def decimal_sum(self, sql: str, type_: pa.DataType) -> Made:
        """The sum of decimals of any number of digits, as a decimal of ten digits more, 38 at most."""

    @abstractmethod
    def decimal_mean(self, sql: str, type_: pa.DataType) -> Made:
        """The average of decimals of any number of digits, as `mean` has it, with 38 digits at most."""

    # failures

    def fault(self, error: Exception, url: str, doing: str = "") -> BelvedereError:
        """The diagnostic for a driver's error."""
        return fault(error, self.faults, url, doing)

    @contextmanager
    def guarded(self, url: str, errors: tuple[type[Exception], ...], doing: str = "") -> Iterator[None]:
        """Turn a driver's `errors` into diagnostics."""
        try:
            yield
        except errors as error:
            raise self.fault(error, url, doing) from error


_PARTS = ((86_400_000_000, 0), (3_600_000_000, 24), (60_000_000, 60), (1_000_000, 60))
"""The microseconds of days, hours, minutes and seconds, and how many of each the next larger one has."""
DIGITS_MOST = 38
"""Maximum number of digits of a decimal."""
MEAN_DIGITS = 4
"""How many more digits the average of decimals has than they have (Spark's `Average`)."""


def is_binary(type_: pa.DataType) -> bool:
    """Whether values are bytes."""
    return bool(types.is_binary(type_) or types.is_large_binary(type_))


def null_order(sort: Sort) -> str:
    """The end of a key of ORDER BY that says where NULLs come."""
    return f"{' DESC' if sort.descending else ''} NULLS {'FIRST' if sort.nulls_first else 'LAST'}"


def literal(text: str) -> str:
    """A string literal: all dialects take standard strings (Postgres: `standard_conforming_strings`)."""
    return "'" + text.replace("'", "''") + "'"


_MAX_CHAIN_LENGTH = 100


def concatenation(parts: Sequence[str]) -> str:
    """`||` without needless brackets: SQLite bounds an expression's depth at 1000, and its parser's stack at 100."""
    if len(parts) <= _MAX_CHAIN_LENGTH:
        return "||".join(parts)
    chunks = [parts[i : i + _MAX_CHAIN_LENGTH] for i in range(0, len(parts), _MAX_CHAIN_LENGTH)]
    return "||".join(f"({'||'.join(chunk)})" for chunk in chunks)


def joined(operator: str, parts: Sequence[str], empty: str) -> str:
    """Brackets around many parts: without them SQLite nests an expression as deep as it has parts."""
    if not parts:
        return empty
    if len(parts) > _MAX_CHAIN_LENGTH:
        chunks = [parts[i : i + _MAX_CHAIN_LENGTH] for i in range(0, len(parts), _MAX_CHAIN_LENGTH)]
        return joined(operator, [joined(operator, chunk, empty) for chunk in chunks], empty)
    return parts[0] if len(parts) == 1 else "(" + operator.join(parts) + ")"
