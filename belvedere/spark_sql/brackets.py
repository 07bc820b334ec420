"""Brackets that preserve the shape of a tree in its text.

In: an expression tree. Out: the same tree with `exp.Paren` around each operand that binds less tightly than its
position requires. The levels are those of Spark's grammar. A parsed tree already has its brackets; a rewritten one may
lack them.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

OR, AND, NOT, PREDICATE, COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN, POSTFIX, WHOLE = range(1, 15)
LEVELS: dict[type[exp.Expr], int] = {
    exp.Lambda: 0,
    exp.Or: OR,
    exp.And: AND,
    exp.Not: NOT,
    **dict.fromkeys((exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape), PREDICATE),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), PREDICATE),  # printed as IS [NOT] DISTINCT FROM
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), COMPARISON),
    exp.BitwiseOr: BIT_OR,
    exp.BitwiseXor: BIT_XOR,
    exp.BitwiseAnd: BIT_AND,
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), SHIFT),
    **dict.fromkeys((exp.Add, exp.Sub, exp.DPipe), SUM),
    **dict.fromkeys((exp.Mul, exp.Div, exp.Mod, exp.IntDiv), PRODUCT),
    **dict.fromkeys((exp.Neg, exp.BitwiseNot), SIGN),
    **dict.fromkeys((exp.Collate, exp.Bracket, exp.Dot, exp.JSONExtract), POSTFIX),
}
"""Binding level of the text of a node; nodes that are not listed (names, literals, calls) bind tightest."""
_OPERANDS: dict[type[exp.Expr], tuple[tuple[str, int], ...]] = {
    **{
        kind: (("this", level), ("expression", level if level <= AND else level + 1))
        for kind, level in LEVELS.items()
        if issubclass(kind, exp.Binary) and PREDICATE != level < POSTFIX
    },
    **{
        kind: (("this", COMPARISON), ("expression", COMPARISON)) for kind, level in LEVELS.items() if level == PREDICATE
    },
    exp.Escape: (),
    exp.Between: (("this", COMPARISON), ("low", COMPARISON), ("high", COMPARISON)),
    exp.Not: (("this", NOT),),
    **{kind: (("this", level),) for kind, level in LEVELS.items() if level in (SIGN, POSTFIX)},
}
"""Minimum level of each argument of a node."""


def bracketed(tree: exp.Expr) -> exp.Expr:
    """Add the missing brackets to the tree and return it."""
    for node in list(tree.walk()):
        for name, least in _OPERANDS.get(type(node), ()):
            operand: Any = node.args.get(name)
            if isinstance(operand, exp.Expr) and _level(operand) < least:
                node.set(name, exp.Paren(this=operand))
    return tree


def _level(node: exp.Expr) -> int:
    if isinstance(node, exp.Literal) and not node.is_string and node.name.startswith("-"):
        return SIGN
    return LEVELS.get(type(node), WHOLE)
