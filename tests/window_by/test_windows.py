"""The interpreter and the kernels find the same windows as the rules, for random tables and framings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, example, given, settings

from belvedere.sqlpp.parser import parse_window_query
from tests.depth import examples
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.oracle import Framing, answer
from tests.window_by.paper import close
from tests.window_by.random_queries import framings, ignored, tables, text_of
from tests.window_by.without_spark import run

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


def completed(found: list[dict[str, Any]], framing: Framing) -> list[dict[str, Any]]:
    """Columns that are MISSING as None, without those that the query cannot say."""
    names = [n for n in answer_columns() if n not in ignored(framing)]
    return [{n: row.get(n) for n in names} for row in found]


def answer_columns() -> list[str]:
    row = {"id": 0, "k": 0, "o": 0, "v": 1, "x": 1.0, "s": "a"}
    return list(answer([row], Framing(False, None, ("true",), ("true",)))[0])


@pytest.mark.deep
@given(tables(), framings())
@settings(max_examples=examples(300), deadline=None, phases=PHASES)
def test_the_interpreter_follows_the_rules(rows: list[dict[str, Any]], framing: Framing) -> None:
    found = compile_query(parse_window_query(text_of(framing)))({"rows": rows})
    assert close(completed(found, framing), completed(answer(rows, framing), framing))


UNLIKE = ("compare", "<>", ("sub", ("field", "label", "item", "v"), ("pos", "end")), ("const", 4))
ONE_ROW = [{"id": 0, "k": 0, "o": 0, "v": 5, "x": None, "s": None}]


@pytest.mark.deep
@given(tables(), framings())
@example(ONE_ROW, Framing(False, ("true",), "unbounded", UNLIKE))  # a position that must differ is no range
@settings(max_examples=examples(300), deadline=None, phases=PHASES)
def test_the_kernels_follow_the_rules(rows: list[dict[str, Any]], framing: Framing) -> None:
    found = run(text_of(framing), rows)
    assert close(completed(found, framing), completed(answer(rows, framing), framing))


def test_products_beyond_64_bits_are_exact() -> None:
    values = [2**40, -(2**45), 2**52 + 1, 3, None, 2**52 + 1]
    rows = [
        {"id": n, "k": 0, "o": n, "v": v, "x": None if v is None else float(v), "s": None} for n, v in enumerate(values)
    ]
    text = (
        "FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE SLIDING START AS s AT p END AS e AT q WHEN e.v "
        "* s.v > 9007199254740992 * 1024 AND q - p <> 1 OR e.x * s.x < 0 SELECT s.id AS a, e.id AS b, LEN(w) AS n"
    )
    requested = compile_query(parse_window_query(text))({"rows": rows})
    assert run(text, rows) == [{n: row.get(n) for n in ("a", "b", "n")} for row in requested]
    assert len({row.get("b") for row in requested}) > 2


def test_a_condition_on_one_tuple_within_one_on_two() -> None:
    rows = [{"id": n, "k": 0, "o": n, "v": n, "x": None, "s": "a"} for n in range(4)]
    text = (
        'FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE SLIDING START AS s END AS e WHEN s.s = "a" AND '
        '(e.s = "b" OR e.v * s.v > 2 AND NOT (e.v = 2)) SELECT s.id AS a, e.id AS b'
    )
    assert [(row["a"], row["b"]) for row in run(text, rows)] == [(0, None), (1, 3), (2, 3), (3, 3)]


def test_differences_from_numbers_near_64_bits() -> None:
    values = [2**63 - 8, 5, -(2**63) + 8, 2**63 - 2, None, -5]
    rows = [{"id": n, "k": 0, "o": n, "v": v, "x": None, "s": None} for n, v in enumerate(values)]
    head = "FROM rows AS r WINDOW BY w PARTITION BY r.k ORDER BY r.o TYPE SLIDING START AS s AT p END AS e AT q WHEN "
    for condition in (
        "e.v - s.v > 100",
        "s.v - e.v > 100",
        "e.v - s.v <= 9",
        "s.v - e.v + 100 < 0",
        "e.v - s.v = 6",
        "e.v - s.v <> 6",
    ):
        text = head + condition + " SELECT s.id AS a, e.id AS b"
        requested = compile_query(parse_window_query(text))({"rows": rows})
        assert run(text, rows) == [{n: row.get(n) for n in ("a", "b")} for row in requested], condition
    with pytest.raises(OverflowError):
        run(head + "e.v + q > p + 2 SELECT s.id AS a, e.id AS b", rows)
