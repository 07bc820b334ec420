"""A function of the language as one row: its names, its result type, and the systems that can compute it.

In: the values of a row. Out: a `Function`. The module does not depend on queries or plans; `belvedere.functions` has
the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from belvedere.functions.algebra import Algebra
from belvedere.functions.sqlpp_functions import SqlppFunction
from belvedere.functions.type_rules import ResultType, always

MANY = 1_000_000
"""Maximum number of arguments of functions without a maximum."""


class Kind(StrEnum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    """Window function: it is valid only with OVER."""


class Ties(StrEnum):
    """How a function's result depends on the order of tied rows. `belvedere.plan.arrival_order` uses it to make the
    result deterministic."""

    FIRST = "first"
    LAST = "last"
    EXTREME = "extreme"
    """Returns the value of the row with the least or greatest sort value."""
    NTH = "nth"
    LIST = "list"
    SET = "set"
    """Returns a list without a defined order."""
    MODE = "mode"
    TEXT = "text"
    """Returns a list as text."""
    ROW = "row"
    """Counts rows in the order of the window."""
    PEERS = "peers"
    """Treats tied rows equally, so their order has no effect."""


@dataclass(frozen=True)
class Stored:
    """Exact equivalent of a function in SQL over stored forms: texts with `{0}`, `{1}` for the arguments, by
    dialect."""

    sql: Mapping[str, str]
    accepts: Callable[[pa.DataType], bool]
    """Test for the types of all arguments."""
    converts: bool = False
    """Whether the function returns a value that already has the result type unchanged."""


@dataclass(frozen=True)
class Function:
    """A row of the function table.

    `key` is the name of sqlglot's class for a call, or the function's name in lower case. `calls` are its names in
    Spark SQL with minimum and maximum number of arguments.
    """

    key: str
    calls: Mapping[str, tuple[int, int] | None]
    type: ResultType | None = None
    """Rule for the result type; it returns None if the arguments do not fit. No rule: the type depends on more than
    types (a lambda, a schema), or is unknown."""
    kind: Kind = Kind.SCALAR
    first: Callable[[pa.DataType], bool] | None = None
    """Test for the type of the first argument; None: Spark decides."""
    total: bool = False
    """Whether the result is not NULL if no argument is NULL. It may raise an error in ANSI mode."""
    deterministic: bool = True
    """Whether equal input gives equal output. Other functions are rejected; the only clock in SQRL is `now()`."""
    over_nothing: str = "NULL"
    """Result of an aggregate over no rows: NULL, 0 or an empty array."""
    ties: Ties | None = None
    skips_nulls: bool = False
    """Whether it accepts IGNORE NULLS."""
    forgiving: str | None = None
    """Variant with the same arguments that returns NULL instead of an error."""
    reads_text_as: str | None = None
    """Type as which a time function reads a text argument, for functions that also accept texts."""
    algebra: Algebra | None = None
    """Incremental maintenance over append-only input. None: the aggregate is recomputed, or the method depends on more
    than the function."""
    stored: Stored | None = None
    window_by: tuple[SqlppFunction, ...] = field(default=())


def function(
    key: str, calls: str = "", type: ResultType | pa.DataType | None = None, *window_by: SqlppFunction, **facts: object
) -> Function:
    """Return a row of the table. `calls` are names with numbers of arguments: `upper:1`, `round:1-2`, `concat:0+`. The
    table does not check the number for a name alone."""
    rule = always(type) if isinstance(type, pa.DataType) else type
    return Function(key, dict(map(_counted, calls.split())), rule, window_by=window_by, **facts)  # type: ignore[arg-type]


def _counted(call: str) -> tuple[str, tuple[int, int] | None]:
    name, least, more = re.fullmatch(r"(\w+)(?::(\d+)(\+|-\d+)?)?", call).groups()  # type: ignore[union-attr]
    if least is None:
        return name, None
    return name, (int(least), MANY if more == "+" else int(more[1:] if more else least))


def aggregate(key: str, calls: str = "", type: ResultType | pa.DataType | None = None, **facts: object) -> Function:
    """Return a row of an aggregate."""
    return function(key, calls, type, kind=Kind.AGGREGATE, **facts)


def window_function(
    key: str, calls: str = "", type: ResultType | pa.DataType | None = None, **facts: object
) -> Function:
    """Return a row of a window function."""
    return function(key, calls, type, kind=Kind.WINDOW, **facts)


def stored(accepts: Callable[[pa.DataType], bool], converts: bool = False, **sql: str) -> Stored:
    """Return the SQL with which stores compute a function: `stored(is_integer, sqlite="abs({0})",
    postgres="abs({0})")`."""
    return Stored(sql, accepts, converts)
