"""A function of the language as one row: what is called how, what it gives, where else it can be computed.

In: the values of a row. Out: a `Function`. It knows no query and no plan; `belvedere.functions` has the rows.
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
"""The greatest number of arguments where there is none."""


class Kind(StrEnum):
    SCALAR = "scalar"
    AGGREGATE = "aggregate"
    WINDOW = "window"
    """Makes sense with OVER only."""


class Ties(StrEnum):
    """How a function's result depends on the order of tied rows, which decides how `belvedere.plan.arrival_order` fixes
    it.
    """

    FIRST = "first"
    LAST = "last"
    EXTREME = "extreme"
    """The value beside the least or greatest one."""
    NTH = "nth"
    LIST = "list"
    SET = "set"
    """A list without order."""
    MODE = "mode"
    TEXT = "text"
    """A list as text."""
    ROW = "row"
    """Counts rows in the order of the window."""
    PEERS = "peers"
    """Treats rows that tie alike: their order does not matter."""


@dataclass(frozen=True)
class Stored:
    """The same value in SQL over stored forms, exactly: texts with `{0}`, `{1}` for the arguments, by the dialect's name."""

    sql: Mapping[str, str]
    accepts: Callable[[pa.DataType], bool]
    """Test for the types of all arguments."""
    converts: bool = False
    """Whether a value that has the result's type already stays as it is."""


@dataclass(frozen=True)
class Function:
    """`key` is the class that the parser makes of a call, or its name in small letters; `calls` are the names that one writes in
    Spark SQL, with the least and the greatest number of arguments."""

    key: str
    calls: Mapping[str, tuple[int, int] | None]
    type: ResultType | None = None
    """Gives None where the arguments do not fit. No rule: the type follows from more than types (a lambda, a schema), or is not known."""
    kind: Kind = Kind.SCALAR
    first: Callable[[pa.DataType], bool] | None = None
    """Test for the type of the first argument; None: Spark decides."""
    total: bool = False
    """Whether it is not NULL where no argument is (an error in ANSI mode at worst)."""
    deterministic: bool = True
    """Else it is refused: the same input would not give the same answer (SQRL knows one clock: `now()`)."""
    over_nothing: str = "NULL"
    """Result of an aggregate over no rows: NULL, 0 or an empty array."""
    ties: Ties | None = None
    skips_nulls: bool = False
    """Whether it takes IGNORE NULLS."""
    forgiving: str | None = None
    """The call with the same arguments that gives NULL where this one fails."""
    reads_text_as: str | None = None
    """A function of times that also takes text, and what it reads it as."""
    algebra: Algebra | None = None
    """How it follows rows that only arrive; None where it is computed again, or where that depends on more than the function."""
    stored: Stored | None = None
    window_by: tuple[SqlppFunction, ...] = field(default=())


def function(
    key: str, calls: str = "", type: ResultType | pa.DataType | None = None, *window_by: SqlppFunction, **facts: object
) -> Function:
    """A row. `calls` are names with numbers of arguments: `upper:1`, `round:1-2`, `concat:0+`; a name alone is not counted."""
    rule = always(type) if isinstance(type, pa.DataType) else type
    return Function(key, dict(map(_counted, calls.split())), rule, window_by=window_by, **facts)  # type: ignore[arg-type]


def _counted(call: str) -> tuple[str, tuple[int, int] | None]:
    name, least, more = re.fullmatch(r"(\w+)(?::(\d+)(\+|-\d+)?)?", call).groups()  # type: ignore[union-attr]
    if least is None:
        return name, None
    return name, (int(least), MANY if more == "+" else int(more[1:] if more else least))


def aggregate(key: str, calls: str = "", type: ResultType | pa.DataType | None = None, **facts: object) -> Function:
    """A row of an aggregate."""
    return function(key, calls, type, kind=Kind.AGGREGATE, **facts)


def window_function(
    key: str, calls: str = "", type: ResultType | pa.DataType | None = None, **facts: object
) -> Function:
    """A row of a window function."""
    return function(key, calls, type, kind=Kind.WINDOW, **facts)


def stored(accepts: Callable[[pa.DataType], bool], converts: bool = False, **sql: str) -> Stored:
    """How stores compute a function: `stored(is_integer, sqlite="abs({0})", postgres="abs({0})")`."""
    return Stored(sql, accepts, converts)
