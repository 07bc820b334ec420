"""Functions of a project: Python over Arrow arrays, with types of SQL.

In: a declaration beside a Python function, or a call in a query's tree. Out: an `OwnFunction`, a call that carries it. Reading the module
of a project is `project_module`; Spark runs the functions (`belvedere.spark.project_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

DECLARED = "__belvedere__"
"""The attribute of a Python function that holds its declaration."""
OWN = "own"
"""The argument of a call's node that holds the function."""

Written = TypeVar("Written", bound=Callable[..., Any])


def function(parameters: str, result: str) -> Callable[[Written], Written]:
    """Make a Python function one of SQL: `@belvedere.function("price DOUBLE, qty INT", "DOUBLE")`.

    `parameters` are names with types of SQL in the order of the Python function's parameters; `result` is a type of SQL. It takes a
    `pyarrow.Array` for each parameter, all of one length, and returns a `pyarrow.Array` of that length and of the result's type. The same
    values must give the same result, whatever rows stand beside them: rows come in batches of any size, some of them again.
    """

    def declare(written: Written) -> Written:
        setattr(written, DECLARED, (parameters, result))
        return written

    return declare


@dataclass(frozen=True)
class OwnFunction:
    """A function of a project. Two are equal where name, types and code are."""

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    code: str
    """A hash of the sources of its module and of the modules beside it that it imports."""
    file: str = field(default="", compare=False)
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    """The Python function; None in processes that only serve."""

    @property
    def registered(self) -> str:
        """Its name in Spark SQL and in plans: other code is another function, so views that call it are computed again."""
        return f"{self.name.lower()}__{self.code}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "call": None}


def own_call(made: OwnFunction, arguments: list[exp.Expr]) -> exp.Anonymous:
    """A call with its arguments as the function's parameters have them."""
    return exp.Anonymous(this=made.registered, expressions=arguments, **{OWN: made})


def own_function(node: exp.Expr) -> OwnFunction | None:
    """The function of a project that a node calls; None for other nodes."""
    found = node.args.get(OWN)
    return found if isinstance(found, OwnFunction) else None


def marked(call: exp.Anonymous, functions: Mapping[str, OwnFunction]) -> OwnFunction | None:
    """The function of a project that a call names, whatever its case."""
    return own_function(call) or functions.get(call.name.casefold())


def signature(made: OwnFunction, types: Callable[[pa.DataType], str]) -> str:
    """`price(price DOUBLE, qty INT)`."""
    return f"{made.name}({', '.join(f'{n} {types(t)}' for n, t in made.parameters)})"
