"""Comparisons with all values of a subquery or of an array: `x > ANY (SELECT ...)`, `x = ALL (array)`.

In: a comparison whose right side is ANY or ALL. Out: IN if it is equivalent, else a comparison with the least and the
greatest value. As in SQL, it is NULL if NULLs leave the result unknown. For an array: `exists` and `forall`.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from belvedere.syntax.forms.builders import call
from belvedere.syntax.forms.query_forms import filled

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_HOLDS: dict[tuple[type, type], str] = {
    (exp.GT, exp.Any): "x_ > least_",
    (exp.GTE, exp.Any): "x_ >= least_",
    (exp.LT, exp.Any): "x_ < greatest_",
    (exp.LTE, exp.Any): "x_ <= greatest_",
    (exp.NEQ, exp.Any): "x_ <> least_ OR x_ <> greatest_",
}
"""Expression that is TRUE if the comparison holds for some value."""
_FAILS: dict[tuple[type, type], str] = {
    (exp.GT, exp.All): "x_ <= greatest_",
    (exp.GTE, exp.All): "x_ < greatest_",
    (exp.LT, exp.All): "x_ >= least_",
    (exp.LTE, exp.All): "x_ > least_",
    (exp.EQ, exp.All): "x_ <> least_ OR x_ <> greatest_",
}
"""Expression that is TRUE if the comparison with all values is FALSE."""
_ANY = "CASE WHEN {} THEN TRUE WHEN rows_ > 0 AND (known_ < rows_ OR x_ IS NULL) THEN NULL ELSE FALSE END"
_ALL = "CASE WHEN {} THEN FALSE WHEN rows_ > 0 AND (known_ < rows_ OR x_ IS NULL) THEN NULL ELSE TRUE END"
_VALUES = {"least_": "min(v_)", "greatest_": "max(v_)", "rows_": "count(*)", "known_": "count(v_)"}


def compared_with_all(node: Any) -> exp.Expr:
    """Rewrite the comparison as comparisons of single values."""
    several = node.expression
    if isinstance(several, exp.Anonymous) and several.name.upper() == "ALL" and len(several.expressions) == 1:
        several = exp.All(this=several.expressions[0])  # for an array sqlglot parses ALL as a function
    if not isinstance(several, (exp.Any, exp.All)):
        return node  # type: ignore[no-any-return]
    inner = several.this.unnest() if isinstance(several.this, exp.Paren) else several.this
    if not isinstance(inner, exp.Query):
        return _with_elements(node, several, inner)
    query = inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
    if (type(node), type(several)) in ((exp.EQ, exp.Any), (exp.NEQ, exp.All)):
        within = exp.In(this=node.this.copy(), query=query.copy())
        return within if isinstance(node, exp.EQ) else exp.Not(this=within)
    return _with_rows(node, several, query)


def _with_elements(node: Any, several: exp.Expr, elements: exp.Expr) -> exp.Expr:
    element = exp.to_identifier("element_")
    body = type(node)(this=node.this.copy(), expression=element.copy())
    lambda_ = exp.Lambda(this=body, expressions=[element])
    if isinstance(several, exp.Any):
        return exp.Exists(this=elements.copy(), expression=lambda_)
    return call("forall", elements.copy(), lambda_)


def _with_rows(node: Any, several: exp.Expr, query: exp.Expr) -> exp.Expr:
    kind = (type(node), type(several))
    text = _ANY.format(_HOLDS[kind]) if kind in _HOLDS else _ALL.format(_FAILS[kind])
    if kind in _HOLDS and _is_condition(node):
        text = _HOLDS[kind]
    parts = {name: _value(query, aggregate) for name, aggregate in _VALUES.items() if name in text}
    return exp.paren(filled(text, x_=node.this, **parts), copy=False)


def _is_condition(node: exp.Expr) -> bool:
    """Return whether only TRUE matters, so that NULL and FALSE need not be distinguished."""
    around = node.parent
    while isinstance(around, (exp.And, exp.Or, exp.Paren)):
        around = around.parent
    return isinstance(around, (exp.Where, exp.Having, exp.Qualify))


def _value(query: exp.Expr, aggregate: str) -> exp.Expr:
    alias = exp.TableAlias(this=exp.to_identifier("values_"), columns=[exp.to_identifier("v_")])
    rows = exp.Subquery(this=query.unnest().copy(), alias=alias)
    rows.meta.update(query.meta)
    item = filled(aggregate)
    return exp.Subquery(this=exp.Select(expressions=[item], from_=exp.From(this=rows)))
