"""Calls of all functions with arguments of all types: the result of Belvedere and of Spark's analyzer.

In: names and numbers of arguments from the table of functions. Out: per call the type on either side, None where it is
refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from belvedere.compiler import compile_script
from belvedere.functions.function import Kind
from belvedere.functions.function_table import ARITY, FUNCTIONS
from belvedere.functions.spark_types import type_text
from belvedere.functions.untyped import COUNTED

COLUMNS = {
    "b": "BOOLEAN",
    "i1": "TINYINT",
    "i4": "INT",
    "i8": "BIGINT",
    "f": "FLOAT",
    "d": "DOUBLE",
    "n": "DECIMAL(10, 2)",
    "s": "STRING",
    "y": "BINARY",
    "day": "DATE",
    "t": "TIMESTAMP",
    "xs": "ARRAY<INT>",
    "ss": "ARRAY<STRING>",
    "m": "MAP<STRING, INT>",
    "r": "STRUCT<a: INT, b: STRING>",
}
TABLE = f"CREATE TABLE T (id INT PRIMARY KEY, {', '.join(f'{n} {t}' for n, t in COLUMNS.items())});\n"
LITERALS = ("1", "'a'", "'YEAR'", "0.5", "'yyyy'")
VARIED = ("b", "i4", "i8", "d", "n", "s", "y", "day", "t", "xs", "m", "1")
BASES = (("s", "s"), ("i4", "i4"), ("t", "s"), ("xs", "i4"), ("s", "1"), ("'YEAR'", "t"), ("n", "1"))
SAMPLES = (*COLUMNS, *LITERALS)
TOGETHER = 32
"""Calls in one query."""
MOST = 4
"""Arguments beyond these are not varied."""
TYPED = {name: row for row in FUNCTIONS for name in row.calls if row.deterministic}
NAMES = sorted(name for name in ARITY if name in TYPED and name not in COUNTED)


def calls_of(name: str) -> Iterator[str]:
    """Calls of one function: all types for one or two arguments, then one argument varied at a time around a base."""
    least, most = ARITY[name]
    over = " OVER (ORDER BY id)" if TYPED[name].kind is Kind.WINDOW else ""
    for count in range(least, min(most, MOST) + 1):
        for arguments in _arguments(count):
            yield f"{name}({', '.join(arguments)}){over}"


def _arguments(count: int) -> Iterable[tuple[str, ...]]:
    if count < 2:
        return itertools.product(*[SAMPLES] * count)
    found = dict.fromkeys((s,) * count for s in COLUMNS)
    bases = [(first, *[other] * (count - 1)) for first, other in BASES]
    for base in bases[: None if count == 2 else 3]:
        for place in range(count):
            found |= dict.fromkeys((*base[:place], s, *base[place + 1 :]) for s in VARIED)
    return found


def our_types(calls: Iterable[str]) -> dict[str, str | None]:
    """The type that Belvedere gives each call; None where it refuses it."""
    found: dict[str, str | None] = {}
    waiting = list(calls)
    for chunk in (waiting[n : n + 400] for n in range(0, len(waiting), 400)):
        script = TABLE + "".join(f"V{n} := SELECT {call} AS x FROM T;\n" for n, call in enumerate(chunk))
        compiled = compile_script(script)
        lines = {script.count("\n", 0, d.span.start) for d in compiled.diagnostics if d.severity == "error" and d.span}
        for n, call in enumerate(chunk):
            view = compiled.catalog.views.get(f"V{n}")
            known = view is not None and n + 1 not in lines
            found[call] = type_text(view.schema["x"].type).upper() if view is not None and known else None
    return found


def spark_types(spark: Any, calls: Mapping[str, str | None]) -> dict[str, str | None]:
    """The type that Spark's analyzer gives each call; None where it refuses it. Calls that have a type here are
    analysed together."""
    columns = ", ".join(f"CAST(NULL AS {t.replace(': ', ':')}) AS {n}" for n, t in {"id": "INT", **COLUMNS}.items())
    rows = spark.sql(f"SELECT {columns}")
    found: dict[str, str | None] = {}
    for kind in Kind:  # an aggregate and a column have no place in one query
        alike = [call for call in calls if TYPED[call.partition("(")[0]].kind is kind]
        typed = [call for call in alike if calls[call] is not None]
        blocks = [typed[n : n + TOGETHER] for n in range(0, len(typed), TOGETHER)]
        for block in (*blocks, *([call] for call in alike if calls[call] is None)):
            found |= _analysed(rows, block)
    return {call: found[call] for call in calls}


def _analysed(rows: Any, calls: list[str]) -> dict[str, str | None]:
    """Types of calls in one query; in halves where Spark refuses it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        fields = rows.selectExpr(*(f"{call} AS x" for call in calls)).schema.fields
    except (PySparkException, Py4JJavaError):  # the second where Spark's analyzer itself fails
        if len(calls) == 1:
            return {calls[0]: None}
        middle = len(calls) // 2
        return _analysed(rows, calls[:middle]) | _analysed(rows, calls[middle:])
    return {call: _text(field.dataType) for call, field in zip(calls, fields, strict=True)}


def _text(type_: Any) -> str:
    return str(type_.simpleString()).upper()
