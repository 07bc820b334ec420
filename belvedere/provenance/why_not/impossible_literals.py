"""Literals in a condition that no row can satisfy: values that the column's type cannot have, and NULL, which equals
nothing.

In: tests of a relation's columns, its columns. Out: nothing, or B8113. A literal is rejected only if Spark certainly
cannot read it as that type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation

import pyarrow as pa
from sqlglot import exp

from belvedere.errors import fail
from belvedere.functions.spark_types import type_text
from belvedere.plan.expressions import conjuncts
from belvedere.plan.operators.nodes import Expr
from belvedere.schema import Schema

NEVER_OF_NULL = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
COMPARISONS = (*NEVER_OF_NULL, exp.NullSafeEQ, exp.NullSafeNEQ)
WHOLE = re.compile(r"\s*[+-]?[0-9]+\s*")
BOOLEANS = ("t", "true", "y", "yes", "1", "f", "false", "n", "no", "0")

types = pa.types


def check_literals(tests: Iterable[Expr], schema: Schema) -> None:
    """Raise B8113 if a column is compared with NULL, or with a text that is not a value of its type."""
    for test in tests:
        whole = (part for part in conjuncts(test) if isinstance(part, NEVER_OF_NULL))
        if any(isinstance(side, exp.Null) for part in whole for side in (part.this, part.expression)):
            raise fail("B8113", "nothing equals NULL, so no row meets this", hint="write `IS NULL` or `IS NOT NULL`")
        for name, text in _compared(test):
            known = schema.find(name)
            if known is not None and not may_be(text, known.type):
                hint = "write a value of this type"
                raise fail(
                    "B8113",
                    f"`{known.name}` is {type_text(known.type)}, but '{text}' is not a value of this type",
                    hint=hint,
                )


def _compared(test: Expr) -> Iterator[tuple[str, str]]:
    """Yield columns and the texts with which they are compared."""
    for node in test.find_all(*COMPARISONS, exp.In, exp.Between):
        match node:
            case exp.In():
                sides = [node.this, *node.expressions]
            case exp.Between():
                sides = [node.this, node.args["low"], node.args["high"]]
            case _:
                sides = [node.this, node.expression]
        columns = [s for s in sides if isinstance(s, exp.Column)]
        texts = [s.name for s in sides if isinstance(s, exp.Literal) and s.is_string]
        yield from ((c.name, t) for c in columns for t in texts)


def may_be(text: str, type_: pa.DataType) -> bool:
    """Return whether Spark may read a text as a value of a type (ANSI casts; the SQL reference's "Cast string to"
    rules)."""
    if types.is_integer(type_):
        return WHOLE.fullmatch(text) is not None
    if types.is_floating(type_) or types.is_decimal(type_):
        return _is_number(text.strip())
    if types.is_boolean(type_):
        return text.strip().lower() in BOOLEANS
    if types.is_date(type_) or types.is_timestamp(type_):
        return any(c.isdigit() for c in text)
    return True


def _is_number(text: str) -> bool:
    """Return whether a text is a double in Java's syntax, which allows a type suffix and hexadecimal digits."""
    try:
        Decimal(text.rstrip("dDfF") if text[:1].isdigit() or text[:1] in "+-." else text)
    except InvalidOperation:
        return text.lower().lstrip("+-").startswith("0x")
    return True
