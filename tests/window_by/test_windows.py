"""The interpreter and the kernels find the same windows as the rules, for random tables and framings."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, event, example, given, settings

from belvedere.lang.window_by_parser import parse_window_query
from belvedere.spark.window_by.interpret import compile_query
from belvedere.spark.window_by.native import Untranslatable
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


@given(tables(), framings())
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_the_interpreter_follows_the_rules(rows: list[dict[str, Any]], framing: Framing) -> None:
    found = compile_query(parse_window_query(text_of(framing)))({"rows": rows})
    assert close(completed(found, framing), completed(answer(rows, framing), framing))


UNLIKE = ("compare", "<>", ("sub", ("field", "label", "item", "v"), ("pos", "end")), ("const", 4))
ONE_ROW = [{"id": 0, "k": 0, "o": 0, "v": 5, "x": None, "s": None}]


@given(tables(), framings())
@example(ONE_ROW, Framing(False, ("true",), "unbounded", UNLIKE))  # a position that must differ is no range
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_the_kernels_follow_the_rules(rows: list[dict[str, Any]], framing: Framing) -> None:
    try:
        found = run(text_of(framing), rows)
    except Untranslatable as reason:
        event(f"interpreter: {reason}")
        return
    event("kernels")
    assert close(completed(found, framing), completed(answer(rows, framing), framing))
