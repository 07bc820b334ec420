"""Helpers for scalar expressions: columns that they read, implied equalities, and renaming.

Expressions are sqlglot trees and never changed in place: every rewrite here works on a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

Expr = exp.Expr
SHORT = 16
"""Maximum number of conditions in a chained conjunction; longer ones become a balanced tree."""


def column(name: str) -> exp.Column:
    """Return a reference to a column of the input, by its exact name."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def columns(names: Iterable[str]) -> tuple[Expr, ...]:
    """Return references to columns of the input."""
    return tuple(column(n) for n in names)


def call(name: str, *arguments: Expr) -> exp.Anonymous:
    """Return a call of a Spark function by name."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def row_number(partition: Sequence[Expr], order: exp.Order | None) -> exp.Window:
    """Return `row_number() OVER (PARTITION BY ... ORDER BY ...)`."""
    return exp.Window(this=exp.RowNumber(), partition_by=[e.copy() for e in partition], order=order, over="OVER")


def columns_of(expr: Expr) -> frozenset[str]:
    """Return the names of the columns that an expression reads."""
    return frozenset(c.name for c in expr.find_all(exp.Column))


def reads_clock(expr: Expr) -> bool:
    """Return whether the expression contains `now()`."""
    return expr.find(exp.CurrentTimestamp) is not None


def replace_columns(expr: Expr, replacement: Mapping[str, Expr] | Callable[[str], Expr | None]) -> Expr:
    """Return a copy with columns replaced by other expressions; columns without a replacement stay."""
    look_up = replacement.get if isinstance(replacement, Mapping) else replacement

    def change(node: Expr) -> Expr:
        found = look_up(node.name) if isinstance(node, exp.Column) else None
        if found is None:
            return node
        beside_operator = isinstance(
            node.parent, (exp.Binary, exp.Unary, exp.Predicate, exp.Bracket)
        ) and not isinstance(node.parent, exp.Paren)
        return _operand(found) if beside_operator else found.copy()

    result: Expr = expr.transform(change)
    return result


def map_columns(expr: Expr, change: Callable[[exp.Column], Expr]) -> Expr:
    """Return a copy in which `change` is applied to every column."""
    result: Expr = expr.transform(lambda node: change(node) if isinstance(node, exp.Column) else node)
    return result


def map_operands(node: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Apply `change` to each operand of the node in place and return the node; its names and types stay."""
    for key, value in list(node.args.items()):
        if isinstance(value, list):
            node.set(key, [change(v) if isinstance(v, exp.Expr) else v for v in value])
        elif isinstance(value, exp.Expr) and not isinstance(value, (exp.Identifier, exp.DataType)):
            node.set(key, change(value))
    return node


def conjuncts(condition: Expr | None) -> tuple[Expr, ...]:
    """Return the parts of a conjunction; none for None."""
    if condition is None:
        return ()
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return (condition,)


def equated(condition: Expr | None) -> tuple[tuple[str, Expr], ...]:
    """Return each column that a conjunction equates with an expression, and the expression."""
    equalities = [part for part in conjuncts(condition) if isinstance(part, (exp.EQ, exp.NullSafeEQ))]
    sides = (side for e in equalities for side in ((e.left, e.right), (e.right, e.left)))
    return tuple((a.name, b) for a, b in sides if isinstance(a, exp.Column))


def conjunction(parts: Iterable[Expr]) -> Expr | None:
    """Return the parts joined by AND; None for none."""
    given = list(parts)
    if len(given) < 2:
        return given[0].copy() if given else None
    if len(given) > SHORT:
        half = len(given) // 2
        return exp.And(this=conjunction(given[:half]), expression=conjunction(given[half:]))
    result: Expr = _operand(given[0])  # the first may be an OR, which binds less tightly than AND
    for part in given[1:]:
        result = exp.And(this=result, expression=exp.paren(part, copy=True))
    return result


def _operand(expr: Expr) -> Expr:
    """Return a copy that may be an operand of any operator: operators are put in parentheses."""
    loose = isinstance(expr, (exp.Binary, exp.Not, exp.Neg, exp.Between, exp.In)) and not isinstance(expr, exp.Dot)
    return exp.paren(expr, copy=True) if loose else expr.copy()
