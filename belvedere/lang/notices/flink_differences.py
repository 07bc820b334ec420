"""Notices on expressions that have another meaning in Flink SQL.

In: a catalog without errors, the script's text. Out: a notice for views that show open windows in Flink's spelling. In
a script with forms of Flink SQL or DataSQRL, also notices for expressions with another value in Flink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.errors import BelvedereError, Diagnostic, Severity
from belvedere.functions.spark_types import Typed, is_array, is_integer
from belvedere.lang.notices.untold_changes import HINT, is_open
from belvedere.lang.types.infer import Inference
from belvedere.plan.operators.nodes import Node
from belvedere.plan.operators.time_window import TimeWindow

FORMS = re.compile(
    r"\bNOT\s+ENFORCED\b|\bTIMESTAMP_LTZ\s*\(|\bTABLE\s*\(\s*(TUMBLE|HOP|CUMULATE|SESSION)\s*\(\s*TABLE\b",
    re.IGNORECASE,
)
"""Patterns that occur only in Flink SQL. Forms that SQRL shares with it (METADATA FROM, hints) do not identify a
script's origin."""
QUOTIENT = (
    "`/` of whole numbers gives a DOUBLE",
    "a whole number",
    "write `a DIV b`, or CAST one side to DOUBLE: both mean the same in Flink",
)
MEAN = (
    "`avg` of whole numbers gives a DOUBLE",
    "a whole number",
    "write `CAST(avg(x) AS BIGINT)`, or avg of a DOUBLE for both",
)
ELEMENT = ("`xs[1]` is the second element of an array", "the first", "write `element_at(xs, 1)` for the first one")
"""Meaning here, meaning in Flink, and a form with the same meaning in both."""


def flink_windows(catalog: Catalog) -> list[Diagnostic]:
    """Return B5034 for views of `TABLE(TUMBLE(...))` and similar calls that show open windows; Flink emits only closed
    ones."""
    shown = [v for v in catalog.views.values() if _is_flink(v.plan) and is_open(v.plan, catalog)]
    if not shown:
        return []
    names = ", ".join(f"`{v.name}`" for v in shown)
    message = f"{names} {'shows' if len(shown) == 1 else 'show'} windows that are still open, unlike Flink"
    return [Diagnostic("B5034", message, Severity.NOTICE, shown[0].span, hint=HINT)]


def _is_flink(plan: Node) -> bool:
    """Return whether a plan groups by windows in Flink's spelling."""
    windows = (n for n in plan.walk() if isinstance(n, TimeWindow))
    return any(n.start.endswith(".window_start") for n in windows)


def flink_values(catalog: Catalog, text: str) -> list[Diagnostic]:
    """Return B3049 for views with expressions that have another value in Flink, one per meaning, in a script with
    Flink's forms."""
    if not FORMS.search(text):
        return []
    found: dict[tuple[str, str, str], Diagnostic] = {}
    for view in catalog.views.values():
        for here, there, hint in _meanings(view.plan):
            message = f"{here} in `{view.name}`, in Flink {there}"
            found.setdefault((here, there, hint), Diagnostic("B3049", message, Severity.NOTICE, view.span, hint=hint))
    return list(found.values())


def _meanings(plan: Node) -> Iterator[tuple[str, str, str]]:
    for node in plan.walk():
        types = Inference({c.name: Typed(c.type, c.nullable) for i in node.inputs for c in i.schema})
        for expr in (e for whole in node.expressions for e in whole.find_all(exp.Div, exp.Avg, exp.Bracket)):
            if isinstance(expr, exp.Div) and all(
                map(is_integer, map(_type, (types, types), (expr.this, expr.expression)))
            ):
                yield QUOTIENT
            elif isinstance(expr, exp.Avg) and is_integer(_type(types, expr.this)):
                yield MEAN
            elif isinstance(expr, exp.Bracket) and not expr.args.get("offset") and is_array(_type(types, expr.this)):
                yield ELEMENT


def _type(types: Inference, expr: exp.Expr) -> pa.DataType:
    """Return the type of a part; NULL's type if the part cannot be typed alone, as in a lambda."""
    try:
        return types.type(expr.unnest())
    except BelvedereError:
        return pa.null()
