"""Scope of the typing rules: the columns and parameters that an expression reads, and the types of its parts.

In: known columns, parameters, and the variables of the enclosing lambdas. Out: `TypeScope`, the first argument of every
rule. The rules are in the modules `*_types`, one for each kind of expression; `belvedere.lang.types.infer` combines
them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import BelvedereError, fail
from belvedere.functions import spark_types as t
from belvedere.functions.spark_types import Typed
from belvedere.syntax.query_tree import span_of


class SubqueryValue(exp.Expression):
    """Value of a subquery that lowering has not joined yet: `typed` is its type, `expressions` are the outer values."""

    arg_types: ClassVar[dict[str, bool]] = {"entry": True, "typed": True, "expressions": False}


@dataclass
class TypeScope(ABC):
    """Known columns and parameters; `variables` are those of the enclosing lambdas."""

    columns: Mapping[str, Typed]
    file: str = ""
    parameters: Mapping[str, Typed] = field(default_factory=dict)
    variables: dict[str, Typed] = field(default_factory=dict)

    @abstractmethod
    def typed(self, expr: exp.Expr) -> Typed:
        """Return type and nullability of an expression."""

    @abstractmethod
    def has_rule(self, expr: exp.Expr) -> bool:
        """Return whether this kind of expression has a rule of its own, in addition to those by a function's name."""

    def type(self, expr: exp.Expr) -> pa.DataType:
        """Return only the Arrow type."""
        return self.typed(expr).type

    def condition(self, expr: exp.Expr, place: exp.Expr | None = None, *, untyped: bool = False) -> Typed:
        """Return the type of a condition, which must be BOOLEAN; `place` is its position if the expression has none.

        `untyped`: whether a NULL without a CAST is allowed, as next to AND.
        """
        found = self.typed(expr)
        if found.type == t.BOOLEAN or (found.type == t.NULL and untyped):
            return found
        if found.type == t.NULL:
            message, hint = "a condition is needed here, but this NULL has no type", "write CAST(NULL AS BOOLEAN)"
        else:
            message, hint = (
                f"a condition is needed here, not {t.a_type(found.type)}",
                "compare it: `x <> 0`, `x IS NOT NULL`",
            )
        raise self.fail("B3002", message, place or expr, hint)

    def common(self, parts: Iterable[exp.Expr], null_if: Callable[[Iterable[bool]], bool] = any) -> Typed:
        """Return the type that all parts fit into; nullable by `null_if` (any or all) over the parts."""
        typed = [(part, self.typed(part)) for part in parts]
        result: pa.DataType = t.NULL
        for written, part in typed:
            common = t.common_type(result, part.type)
            if common is None:
                message = f"{t.type_text(result)} and {t.type_text(part.type)} have no common type"
                raise self.fail("B3002", message, written, "CAST one of them to the type of the other")
            result = common
        return Typed(result, null_if(part.nullable for _, part in typed))

    def fail(self, code: str, message: str, expr: Any, hint: str | None = None) -> BelvedereError:
        """Return an error at an expression."""
        place = span_of(expr, self.file) if isinstance(expr, exp.Expr) else None
        return fail(code, message, span=place, hint=hint)


TypeRule = Callable[[TypeScope, Any], Typed]


def children(expr: exp.Expr) -> list[exp.Expr]:
    """Return the argument expressions of a node, in the order of its class's arguments, without names and options."""
    found: list[exp.Expr] = []
    for name in expr.arg_types:
        value = expr.args.get(name)
        if name in ("unit", "format", "kind", "zone") and not (name == "zone" and isinstance(value, exp.Column)):
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr) and not isinstance(part, (exp.Var, exp.Star, exp.DataType, exp.JSONPath)):
                found.append(part)
    return found
