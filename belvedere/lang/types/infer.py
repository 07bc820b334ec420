"""Type of a resolved expression, as Spark 4.3 computes it in ANSI mode.

In: a sqlglot tree whose columns are resolved, and the columns that it may read. Out: `Typed` (Arrow type and
nullability; nullable if in doubt). Raises a diagnostic (B3xxx) at the position that has no type. Nothing is rewritten
here.
"""

from __future__ import annotations

from sqlglot import exp

from belvedere.functions.spark_types import Typed
from belvedere.lang.types import call_types as type_functions
from belvedere.lang.types import form_types as type_forms
from belvedere.lang.types import leaf_types as type_names
from belvedere.lang.types import operator_types as type_operators
from belvedere.lang.types import rounding as type_rounding
from belvedere.lang.types.constant_checks import check_constants
from belvedere.lang.types.types_in_texts import check_options
from belvedere.lang.types.typing_scope import SubqueryValue, TypeRule, TypeScope

RULES: dict[type[exp.Expr], TypeRule] = {
    SubqueryValue: lambda scope, e: e.args["typed"],
    **type_names.RULES,
    **type_operators.RULES,
    **type_forms.RULES,
    **type_rounding.RULES,
    **type_functions.RULES,
}


class Inference(TypeScope):
    """Types of expressions over known columns and parameters."""

    def typed(self, expr: exp.Expr) -> Typed:
        """Return type and nullability of an expression."""
        if isinstance(expr, exp.Func):
            check_constants(self, expr)
            check_options(self, expr)
        for class_ in type(expr).__mro__:
            rule = RULES.get(class_)
            if rule is not None:
                return rule(self, expr)
        if isinstance(expr, exp.Func):
            return type_functions.function(self, expr)
        raise self.fail("B3001", "this expression has no value", expr)

    def has_rule(self, expr: exp.Expr) -> bool:
        """Return whether this kind of expression has a rule of its own."""
        return type(expr) in RULES
