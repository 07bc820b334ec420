"""Operators group as in Spark's grammar: Spark parses a printed text to the same tree as the original."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import pytest
from sqlglot import exp

from belvedere.spark_sql.dialect import SparkSql, SparkSqlGenerator
from belvedere.syntax.parse import parse_script
from belvedere.syntax.statement_tree import DefineView
from tests.depth import at_night

BINARY = "= <> < <= > >= <=> | ^ & << >> + - || * / % DIV AND OR".split()
PREDICATES = ("LIKE", "NOT LIKE", "RLIKE", "ILIKE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")
ENDS = (
    "IS NULL",
    "BETWEEN c AND d",
    "NOT BETWEEN c AND d",
    "IN (c, d)",
    "NOT IN (c)",
    "IS TRUE",
    "LIKE 'a' ESCAPE '!'",
)
SIGNS = ("-", "~", "NOT", "!")
FEW = "= < | ^ & << + || * DIV AND OR".split()


def pairs() -> Iterator[str]:
    """All pairs of operators."""
    for one, other in product(BINARY, (*BINARY, *PREDICATES)):
        yield f"a {one} b {other} c"
    for one, end in product(BINARY, ENDS):
        yield f"a {one} b {end}"
    for sign, one in product(SIGNS, (*BINARY, *PREDICATES, *ENDS)):
        yield f"{sign} a {one}" if one in ENDS else f"{sign} a {one} b"
    for one, sign in product((*BINARY, *PREDICATES), SIGNS[:2]):
        yield f"a {one} {sign} b"
    for one, connector in product((*PREDICATES, *ENDS), ("AND", "OR")):
        yield f"a {one}{'' if one in ENDS else ' b'} {connector} c = d"
        yield f"c = d {connector} a {one}{'' if one in ENDS else ' b'}"
    for one in BINARY[:-2]:
        yield f"a BETWEEN b {one} c AND d {one} e"
        yield f"a LIKE b {one} c"
    yield from (
        "-a.b",
        "-a::INT",
        "~a[1]",
        "a::INT + b",
        "- - a",
        "-(-1)",
        "a - -1",
        "a - (b - c)",
        "a / (b * c)",
        "a - (b + c)",
    )
    yield from (
        "(a OR b) AND c",
        "NOT (a AND b)",
        "NOT NOT a",
        "(NOT a) = b",
        "(a IS NULL) = b",
        "a = (b = c)",
        "a < (b <=> c)",
    )
    yield from ("(a << b).c", "CASE WHEN a = b THEN c END || d")


def triples() -> list[str]:
    return [f"a {one} b {two} c {three} d" for one, two, three in product(FEW, repeat=3)]


class WithShifts(SparkSql):
    """Prints `>>` where Spark is given a call, which its parser makes another tree of."""

    class Generator(SparkSqlGenerator):
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **SparkSqlGenerator.TRANSFORMS,
            exp.BitwiseRightShift: lambda self, e: self.binary(e, ">>"),
        }


def printed(texts: Sequence[str], dialect: type[SparkSql] = SparkSql) -> list[str]:
    """What Spark is given for each text."""
    items = ", ".join(f"{text} AS x{n}" for n, text in enumerate(texts))
    script = parse_script(f"V := SELECT {items} FROM t;", "operators.sqrl")
    view = script.statements[0]
    assert isinstance(view, DefineView)
    return [item.this.sql(dialect=dialect) for item in view.query.expressions]


@pytest.fixture(scope="module")
def grammar(spark: Any) -> Any:
    """Spark's parser."""
    return spark._jsparkSession.sessionState().sqlParser()


def differing(grammar: Any, texts: Sequence[str]) -> list[str]:
    """The texts that Spark reads otherwise than what is printed of them."""
    ours = printed(texts, WithShifts)
    if grammar.parseExpression(f"array({', '.join(texts)})").equals(
        grammar.parseExpression(f"array({', '.join(ours)})")
    ):
        return []
    one = grammar.parseExpression
    return [f"{text} -> {our}" for text, our in zip(texts, ours, strict=True) if not one(text).equals(one(our))]


@pytest.mark.spark
def test_pairs_of_operators_group_as_in_spark(grammar: Any) -> None:
    texts = list(pairs())
    assert len(texts) > 800
    assert differing(grammar, texts) == []


@pytest.mark.spark
@pytest.mark.parametrize("part", at_night(range(4)))
def test_triples_of_operators_group_as_in_spark(grammar: Any, part: int) -> None:
    assert differing(grammar, triples()[part::4]) == []


@pytest.mark.spark
def test_unsigned_shifts_are_calls_at_the_level_of_shifts(grammar: Any) -> None:
    assert printed(["a + b >>> c & d", "a >>> b >> c"]) == [
        "SHIFTRIGHTUNSIGNED(a + b, c) & d",
        "SHIFTRIGHT(SHIFTRIGHTUNSIGNED(a, b), c)",
    ]
    texts = grammar.parseExpression("a + b >>> c & d").toString(), grammar.parseExpression("a >>> b >> c").toString()
    assert printed(["shiftleft(a | b, c) & d"]) == ["(a | b) << c & d"]
    assert texts == ("((('a + 'b) >>> 'c) & 'd)", "(('a >>> 'b) >> 'c)")


@pytest.mark.spark
def test_shifts_stand_behind_arrays_maps_and_structs(grammar: Any) -> None:
    """Spark's parser reads `>>` behind `array(` as the ends of two types."""
    for before in ("array(a)", "map(a, b)", "struct(a)"):
        grammar.parsePlan(f"SELECT {', '.join(printed([before, 'a >> b', 'a >>> b', 'a << b']))} FROM t")


CHAINED = (
    "a IS NULL = b",
    "a IN (1) IS NULL",
    "a NOT LIKE 'x' NOT LIKE 'y'",
    "a BETWEEN 1 AND 2 + 3 IN (b)",
    "a IS NULL IS NULL",
    "a = NOT b",
)


@pytest.mark.parametrize("text", CHAINED)
def test_what_follows_a_predicate_without_brackets_is_refused(text: str) -> None:
    script = parse_script(f"V := SELECT {text} AS x FROM t;", "chained.sqrl")
    assert [(d.code, d.hint) for d in script.diagnostics] == [("B1001", "put the condition into brackets")]


@pytest.mark.spark
@pytest.mark.parametrize("text", CHAINED)
def test_spark_refuses_these_too(grammar: Any, text: str) -> None:
    from pyspark.errors import ParseException

    with pytest.raises(ParseException):
        grammar.parsePlan(f"SELECT {text} AS x FROM t")
