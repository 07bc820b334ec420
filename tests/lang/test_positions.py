"""Every node of every tree knows its exact place in the script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp

from belvedere.syntax.parse import parse_script
from belvedere.syntax.query_tree import span_of
from belvedere.syntax.statement_tree import Statement
from tests.lang.golden import FIXTURES, read_cases

TEXTS = [case.text for path in sorted((FIXTURES / "lang").glob("*.test")) for case in read_cases(path)]


def trees(statement: Statement) -> Iterator[exp.Expr]:
    for value in vars(statement).values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, exp.Expr):
                yield item


@pytest.mark.parametrize("text", TEXTS)
def test_nodes_lie_within_their_parents(text: str) -> None:
    for statement in parse_script(text).statements:
        for tree in trees(statement):
            for node in tree.walk():
                span = span_of(node, "f")
                assert statement.span.start <= span.start <= span.end <= statement.span.end
                if node.parent is not None and node is not tree:
                    outer = span_of(node.parent, "f")
                    assert outer.start <= span.start <= span.end <= outer.end


def place(text: str, kind: type[exp.Expr]) -> str:
    (statement,) = parse_script(text).statements
    node = next(n for tree in trees(statement) for n in tree.walk() if isinstance(n, kind))
    span = span_of(node, "f")
    return text[span.start : span.end]


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (exp.Avg, "avg(r.temp)"),
        (exp.Case, "CASE WHEN a THEN (b) END"),
        (exp.Cast, "CAST(a AS INT)"),
        (exp.Paren, "(b)"),
        (exp.Interval, "24 HOUR"),
        (exp.CurrentTimestamp, "now()"),
        (exp.Join, "JOIN s.readings r ON r.k = s.k"),
        (exp.Where, "WHERE t + 24 HOUR >= now()"),
        (exp.Group, "GROUP BY s.k"),
        (exp.DataType, "INT"),
        (exp.Subquery, "(SELECT 1 AS one)"),
        (exp.Null, "NULL"),
        (exp.Boolean, "TRUE"),
        (exp.Star, "*"),
        (exp.Window, "sum(x) OVER (PARTITION BY y)"),
        (exp.In, "x IN (1, 2)"),
    ],
)
def test_a_node_is_the_text_it_was_read_from(kind: type[exp.Expr], shown: str) -> None:
    text = (
        "SELECT avg(r.temp), CASE WHEN a THEN (b) END, CAST(a AS INT), NULL, x IN (1, 2), (SELECT 1 AS one), TRUE, "
        "count(*), sum(x) OVER (PARTITION BY y)\n"
        "FROM Sensors s JOIN s.readings r ON r.k = s.k WHERE t + 24 HOUR >= now() GROUP BY s.k"
    )
    assert place(text, kind) == shown
