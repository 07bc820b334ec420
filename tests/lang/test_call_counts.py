"""Every function takes as many arguments as it reads: more and fewer are refused at the call, and nothing crashes."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script
from belvedere.functions.function import MANY
from belvedere.functions.function_table import ARITY
from belvedere.syntax.dialect import SqrlParser
from belvedere.syntax.parse import parse_script
from tests import depth
from tests.depth import PART

TABLE = "CREATE TABLE O (id INT, x INT, y INT, js STRING, PRIMARY KEY (id));\n"
NAMES = sorted({*ARITY, *(n.lower() for n in SqrlParser.FUNCTION_PARSERS)})
KEPT_OTHERWISE = (
    "uuid",
    "shuffle",
    "collate",
    "first",
    "last",
    "any_value",
    "first_value",
    "last_value",
    "to_char",
    "instr",
)
"""Refused as they stand, or with these arguments."""


def errors(query: str) -> list[tuple[str, str]]:
    found = [d for d in compile_script(f"{TABLE}V := {query};").diagnostics if d.severity == "error"]
    return [(d.code, d.hint or "") for d in found]


@pytest.mark.deep
def test_no_call_is_read_with_too_few_or_too_many_arguments() -> None:
    """And none crashes, whatever it is given."""
    read = []
    for name in NAMES[:: PART if depth.quick else 1]:
        least, most = ARITY.get(name, (0, MANY))
        for count in {0, least - 1, least, least + 1, most + 1, 5} & set(range(9)):
            found = errors(f"SELECT {name}({', '.join(['x'] * count)}) AS r FROM O")
            if not found and not least <= count <= most:
                read.append((name, count))
            assert ("B1001", "") not in found or name not in ARITY, (name, count)
        if not errors(f"SELECT {name}(DISTINCT) AS r FROM O"):
            read.append((name, -1))
    assert read == []


def test_every_argument_of_a_call_is_printed_for_spark() -> None:
    dropped = []
    for name, (least, most) in ARITY.items():
        for count in range(max(least, 1), min(most, 6) + 1):
            names = [f"q{n}" for n in range(count)]
            script = parse_script(f"SELECT {name}({', '.join(names)}) AS r FROM O;")
            if script.statements:
                text = script.statements[0].query.expressions[0].this.sql("spark").lower()  # type: ignore[attr-defined]
                dropped += [(name, count) for n in names if n not in text and name not in KEPT_OTHERWISE]
    assert not dropped
    assert errors("SELECT max_by(x, y, 3) AS r FROM O")[0][0] == "B3015"
    assert errors("SELECT instr(js, js, 1, 2) AS r FROM O")[0][0] == "B3015"
    assert errors("SELECT first(x, y > 1) AS r FROM O")[0][0] == "B3015"
    assert errors("SELECT gap_fill(x, x, x, x, x, x, x, x) AS r FROM O")[0][0] == "B1014"


REFUSED = [
    ("collect_list(x, y)", "B3002", "it takes 1 argument"),
    ("array_agg(x, y)", "B3002", "it takes 1 argument"),
    ("grouping(x, y)", "B3002", "it takes 1 argument"),
    ("row_number(1) OVER (ORDER BY x)", "B3002", "it takes no arguments"),
    ("count()", "B3002", "it takes 1 argument or more"),
    ("count() OVER ()", "B3002", "it takes 1 argument or more"),
    ("sum(DISTINCT)", "B3002", "it takes 1 argument"),
    ("nosuch(DISTINCT)", "B3002", "it takes 1 argument or more"),
    ("max(x, y)", "B3002", "it takes 1 argument"),
    ("length(js, y)", "B3002", "it takes 1 argument"),
    ("now(3)", "B3002", "it takes no arguments"),
    ("substring(js, 1, 2, 3)", "B3002", "it takes 2 or 3 arguments"),
    ("ceil(x, 1, 2)", "B3002", "it takes 1 or 2 arguments"),
    ("percentile(x, 0.5, 2)", "B3002", "it takes 2 arguments"),
    ("named_struct('a', 1, 'b')", "B3002", "pairs"),
    ("row_number(DISTINCT) OVER (ORDER BY x)", "B3015", "collect_set"),
    ("upper(DISTINCT js)", "B3015", "remove DISTINCT"),
    ("coalesce(DISTINCT x, y)", "B3015", "remove DISTINCT"),
    ("count(DISTINCT x) OVER ()", "B3015", "collect_set"),
    ("upper(js) FILTER (WHERE x > 1)", "B3015", "CASE"),
    ("row_number() FILTER (WHERE x > 1) OVER (ORDER BY x)", "B3015", "CASE"),
    ("sum(x) IGNORE NULLS", "B3015", "remove it"),
    ("upper(js) OVER ()", "B3015", "row_number"),
    ("rank() OVER (ORDER BY x ROWS 1 PRECEDING)", "B3015", "remove ROWS"),
    ("sum(x) OVER (ORDER BY y ROWS BETWEEN x PRECEDING AND CURRENT ROW)", "B3015", "write a number"),
    ("greatest(map('a', 1), map('b', 2))", "B3002", "CAST"),
    ("sum(x) OVER (ORDER BY x, y RANGE 1 PRECEDING)", "B3015", "ROWS"),
    ("sum(x) OVER (RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", "B3015", "ROWS"),
]


@pytest.mark.parametrize(("call", "code", "hint"), REFUSED, ids=[r[0] for r in REFUSED])
def test_a_call_that_spark_would_refuse_is_refused(call: str, code: str, hint: str) -> None:
    text = f"{TABLE}V := SELECT {call} AS r FROM O;"
    found = [d for d in compile_script(text).diagnostics if d.severity == "error"]
    assert [d.code for d in found] == [code], [(d.code, d.message) for d in found]
    assert hint in (found[0].hint or "")
    span = found[0].span
    assert span is not None
    assert text[span.start : span.end] in call
    assert text[span.start : span.end]


READ_RIGHT = [
    "count(DISTINCT x, y)",
    "count(ALL x)",
    "sum(x) FILTER (WHERE x IN (1, 2))",
    "first(x, true)",
    "any_value(x) IGNORE NULLS",
    "array_agg(DISTINCT x)",
    "max_by(x, y)",
    "reduce(array(1), 0, (a, e) -> a + e, a -> a)",
    "position('a' IN js)",
    "substring(js FROM 1 FOR 2)",
    "trim(BOTH 'a' FROM js)",
    "floor(x, 1)",
    "lag(x, 1, 0) IGNORE NULLS OVER (ORDER BY y)",
    "sum(x) OVER (ORDER BY y RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "sum(x) OVER (ORDER BY y, x RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
    "CAST(x AS DECIMAL(10, 2))",
    "map('a', 1, 'b', 2)",
    "EXISTS (SELECT id, x FROM O p WHERE p.x = 1)",
]


@pytest.mark.parametrize("call", READ_RIGHT)
def test_what_spark_takes_is_taken(call: str) -> None:
    assert errors(f"SELECT {call} AS r FROM O") == []
