"""Functions of a project: Python over Arrow arrays, with SQL types.

In: a declaration of a Python function, or a call in a query's tree. Out: an `OwnFunction`, a call that refers to it.
`project_module` reads the module of a project; Spark runs the functions (`belvedere.spark.project_functions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from sqlglot import exp

DECLARED = "__belvedere__"
"""Attribute of a Python function that holds its declaration."""
OWN = "own"
"""Argument of a call's node that holds the function."""

Written = TypeVar("Written", bound=Callable[..., Any])


def function(parameters: str, result: str) -> Callable[[Written], Written]:
    """Make a Python function callable in SQL: `@belvedere.function("price DOUBLE, qty INT", "DOUBLE")`.

    `parameters` are names with SQL types in the order of the Python function's parameters; `result` is an SQL type. The
    Python function takes a `pyarrow.Array` for each parameter, all of the same length. It returns a `pyarrow.Array` of
    this length and of the result's type. Equal values must give equal results, regardless of other rows: batches have
    any size, and a row may be passed again.
    """

    def declare(written: Written) -> Written:
        setattr(written, DECLARED, (parameters, result))
        return written

    return declare


@dataclass(frozen=True)
class OwnFunction:
    """A function of a project. Two are equal if their names, types and code are equal."""

    name: str
    parameters: tuple[tuple[str, pa.DataType], ...]
    result: pa.DataType
    code: str
    """Hash of the sources of its module and of the modules in the same folder that it imports."""
    file: str = field(default="", compare=False)
    call: Callable[..., Any] | None = field(default=None, compare=False, repr=False)
    """The Python function; None in processes that only serve."""

    @property
    def registered(self) -> str:
        """Name in Spark SQL and in plans. It depends on the code: if the code changes, views that call the function are
        recomputed."""
        return f"{self.name.lower()}__{self.code}"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "call": None}


def own_call(made: OwnFunction, arguments: list[exp.Expr]) -> exp.Anonymous:
    """Return a call of the function; the arguments already have the types of its parameters."""
    return exp.Anonymous(this=made.registered, expressions=arguments, **{OWN: made})


def own_function(node: exp.Expr) -> OwnFunction | None:
    """Return the function of a project that a node calls; None for other nodes."""
    found = node.args.get(OWN)
    return found if isinstance(found, OwnFunction) else None


def marked(call: exp.Anonymous, functions: Mapping[str, OwnFunction]) -> OwnFunction | None:
    """Return the function of a project that a call names, ignoring case; None if there is none."""
    return own_function(call) or functions.get(call.name.casefold())


def signature(made: OwnFunction, types: Callable[[pa.DataType], str]) -> str:
    """Return the signature as text, such as `price(price DOUBLE, qty INT)`."""
    return f"{made.name}({', '.join(f'{n} {types(t)}' for n, t in made.parameters)})"
