"""Unlabelled windows are those of XQuery 3.1, run by Saxon: the language that the clause inherits its meaning from.

Where the two differ by decision the predicates stay away: NOT over unknown values, and the end variables of unclosed
windows.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from belvedere.sqlpp.parser import parse_window_query
from tests.depth import examples
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.oracle import Framing, Tree, partitions
from tests.window_by.random_queries import conditions, tables, text_of

saxonche = pytest.importorskip("saxonche")
VARIABLES = {
    ("start", "item"): "$s", ("start", "previous"): "$sp", ("start", "next"): "$sn",
    ("end", "item"): "$e", ("end", "previous"): "$ep", ("end", "next"): "$en",
}  # fmt: skip
TYPES = {"s": "xs:string", "x": "xs:double", "v": "xs:integer", "o": "xs:integer", "id": "xs:integer"}


@pytest.fixture(scope="module")
def saxon() -> Any:
    return saxonche.PySaxonProcessor(license=False)


def is_sayable(tree: Tree) -> bool:
    """Return whether XQuery has the condition: it knows neither NULL nor aggregates over an open window."""
    return tree[0] not in ("not", "running") and all(is_sayable(t) for t in tree if isinstance(t, tuple))


def framings() -> st.SearchStrategy[Framing]:
    start = conditions("start", ()).filter(is_sayable)
    end = conditions("end", ("start",)).filter(is_sayable)
    closed = st.builds(lambda t, s, e, o: Framing(t, None, s, e, o), st.booleans(), start, end, st.booleans())
    return closed | st.builds(lambda s: Framing(True, None, s, None), start)


def term(tree: Tree) -> str:
    kind = tree[0]
    if kind == "const":
        return str(tree[1]) if isinstance(tree[1], int) else f'"{tree[1]}"'
    if kind == "pos":
        return "$sat" if tree[1] == "start" else "$eat"
    if kind == "field":
        return f"{VARIABLES[tree[1], tree[2]]}/@{tree[3]}/{TYPES[tree[3]]}(.)"
    return f"({term(tree[1])} {'+' if kind == 'add' else '-'} {term(tree[2])})"


def condition(tree: Tree) -> str:
    kind = tree[0]
    if kind == "true":
        return "true()"
    if kind == "missing":
        return f"empty({VARIABLES[tree[1], tree[2]]})"
    if kind in ("and", "or"):
        return f"({condition(tree[1])}) {kind} ({condition(tree[2])})"
    operator = {"<>": "!="}.get(tree[1], tree[1])
    return f"({term(tree[2])}) {operator} ({term(tree[3])})"


def query(rows: list[dict[str, Any]], framing: Framing) -> str:
    items = ", ".join(
        "<r " + " ".join(f'{n}="{float(x) if n == "x" else x}"' for n, x in r.items() if x is not None) + "/>"
        for r in rows
    )
    kind = "tumbling" if framing.tumbling else "sliding"
    clause = f"start $s at $sat previous $sp next $sn when {condition(framing.start)} "  # type: ignore[arg-type]
    if framing.end is not None:
        only = "only " if framing.only else ""
        clause += f"{only}end $e at $eat previous $ep next $en when {condition(framing.end)} "  # type: ignore[arg-type]
    return f'for {kind} window $w in ({items}) {clause} return concat($w[1]/@id, "-", $w[last()]/@id, ";")'


PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


@given(tables(), framings())
@pytest.mark.deep
@settings(max_examples=examples(100), deadline=None, phases=PHASES)
def test_the_windows_are_those_of_xquery(saxon: Any, rows: list[dict[str, Any]], framing: Framing) -> None:
    processor = saxon.new_xquery_processor()
    expected: list[str] = []
    for part in partitions(rows):
        processor.set_query_content(query(part, framing))
        found = processor.run_query_to_string() or ""
        expected += [t.strip() for t in found.split("?>", 1)[-1].split(";") if t.strip()]
    windows = compile_query(parse_window_query(text_of(framing)))({"rows": rows})
    ids = [[i for i in w["ids"] if i is not None] for w in windows]
    assert [f"{i[0]}-{i[-1]}" for i in ids] == [e.replace(" ", "") for e in expected]
