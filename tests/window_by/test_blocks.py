"""Windows found block by block, with the rows around the cuts, are those of the whole sequence: for random framings and
cuts."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from belvedere.kernels.overlap import Margin, begin_of
from belvedere.kernels.windows import window_tables
from belvedere.plan.operators.predicate_window import PredicateWindow
from belvedere.plan.operators.window_specs import Ends
from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import explain_window_query
from tests.depth import examples
from tests.window_by.oracle import Framing, Tree
from tests.window_by.random_queries import conditions, text_of
from tests.window_by.without_spark import TYPES, plan_of, sorted_input, table_of, window_of

blocks = pytest.importorskip("belvedere.spark.window_by.blocks")
cuts = pytest.importorskip("belvedere.spark.window_by.cuts")
Row = dict[str, Any]


@st.composite
def sequences(draw: st.DrawFn) -> list[Row]:
    """One partition with ties, gaps and NULL order keys."""
    size = draw(st.integers(1, 40))
    apart = draw(st.sampled_from([1, 2, 4]))
    nulls = draw(st.sampled_from([0, 0, 3]))
    return [
        {
            "id": n,
            "k": 0,
            "o": None if n < nulls else n * apart // 2 + draw(st.integers(0, 1)) * 2,
            "v": draw(st.none() | st.integers(0, 5)),
            "x": draw(st.sampled_from([None, 0.0, 1.5])),
            "s": draw(st.sampled_from(["", "a"])),
        }
        for n in range(size)
    ]


@st.composite
def unlabelled(draw: st.DrawFn) -> Framing:
    """Framings without LABEL and UNBOUNDED, most with an alternative of END that closes all windows before it."""
    tumbling, end = draw(st.booleans()), draw(conditions("end", ("start",)))
    more: Tree = draw(
        st.sampled_from(
            [
                ("compare", ">", ("field", "end", "item", "v"), ("const", 3)),
                ("compare", ">", ("field", "end", "next", "v"), ("const", 3)),
                ("compare", "<", ("field", "end", "previous", "v"), ("field", "end", "item", "v")),
                ("compare", "=", ("sub", ("pos", "end"), ("pos", "start")), ("const", 3)),
                ("compare", ">", ("sub", ("field", "end", "next", "o"), ("field", "start", "item", "o")), ("const", 4)),
                ("compare", ">", ("sub", ("field", "start", "item", "o"), ("field", "end", "item", "o")), ("const", 4)),
            ]
        )
    )
    end = draw(st.sampled_from([end, more, ("or", end, more), ("and", end, more)]))
    start: Tree = draw(st.just(("true",)) | conditions("start", ()))
    without = tumbling and draw(st.integers(0, 4)) == 0
    return Framing(tumbling, None, start, None if without else end, not without and draw(st.booleans()))


@st.composite
def labelled(draw: st.DrawFn) -> Framing:
    """Frames around labels: START at a distance before the label, END at one behind it, or before it with ONLY."""
    back, ahead = draw(st.integers(0, 6)), draw(st.integers(-4, 5))
    apart: Tree = ("sub", ("field", "label", "item", "o"), ("field", "start", "item", "o"))
    start: Tree = draw(
        st.sampled_from(
            [
                ("compare", "=", ("sub", ("pos", "label"), ("pos", "start")), ("const", back)),
                ("compare", "<=", ("sub", ("pos", "label"), ("pos", "start")), ("const", back)),
                ("compare", "<=", apart, ("const", back)),
                (
                    "compare",
                    ">=",
                    ("field", "start", "item", "o"),
                    ("sub", ("field", "label", "item", "o"), ("const", back)),
                ),
            ]
        )
    )
    other = draw(conditions("end", ("label", "start")))
    further: Tree = (
        "sub",
        ("field", "end", draw(st.sampled_from(["item", "next"])), "o"),
        ("field", "label", "item", "o"),
    )
    end: Tree = draw(
        st.sampled_from(
            [
                ("compare", "=", ("sub", ("pos", "end"), ("pos", "label")), ("const", max(ahead, 0))),
                ("compare", "=", ("sub", ("pos", "label"), ("pos", "end")), ("const", max(-ahead, 0))),
                ("compare", ">=", further, ("const", ahead)),
                ("compare", ">", further, ("const", max(ahead, 0))),
                ("compare", ">", ("field", "end", "item", "v"), ("const", 3)),
            ]
        )
    )
    end = draw(st.sampled_from([end, end, ("or", end, other), ("or", other, end)]))
    return Framing(draw(st.integers(0, 9)) == 0, draw(conditions("label", ())), start, end, draw(st.booleans()))


def by_blocks(table: pa.Table, window: PredicateWindow, ends: Ends, places: list[int], width: int) -> pa.Table:
    """The windows of a sorted sequence cut at `places`; margins begin with `width` rows."""
    spec, rows = window.spec, table.num_rows
    margins, froms = [], []
    for place in places:
        back = ahead = width
        while True:
            low, high = max(place - back, 0), min(place + ahead, rows)
            margin = Margin(table.slice(low, high - low), place - low, low, low == 0, high == rows)
            begin = begin_of(margin, spec, ends)
            if begin is not None:
                break
            assert not (margin.first and margin.last)
            back, ahead = back * 2, ahead * 2
        margins.append(margin)
        froms.append(begin)
    begins = (0, *places, rows)
    found = cuts.Cuts((), begins, tuple(margins), tuple(froms))
    parts = [
        blocks.windows_of_block(table.slice(a, b - a), n, found, spec)
        for n, (a, b) in enumerate(pairwise(begins))
        if b > a
    ]
    return pa.concat_tables(parts)


@pytest.mark.deep
@given(sequences(), unlabelled() | labelled(), st.booleans(), st.data())
@settings(
    max_examples=examples(400),
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
def test_blocks_give_the_windows_of_the_whole(
    rows: list[Row], framing: Framing, descending: bool, data: st.DataObject
) -> None:
    text = re.sub(
        "ORDER BY r.o ", "ORDER BY r.o DESC, r.id " if descending else "ORDER BY r.o, r.id ", text_of(framing)
    )
    window = window_of(plan_of(text)[0])
    assert (window.ends[0] is not None) == said(text).startswith("in blocks")
    ends = window.ends[any(r["o"] is None for r in rows)]
    if ends is None:
        event("not cut")
        return
    table = sorted_input(window, {"rows": table_of(rows)})
    places = sorted(data.draw(st.lists(st.integers(0, len(rows)), min_size=1, max_size=5)))
    found = by_blocks(table, window, ends, places, data.draw(st.integers(1, 3)))
    event(f"{'tumbling' if framing.tumbling else 'sliding'} {framing.end is None} {framing.label is None}")
    whole = pa.concat_tables(window_tables(table, window.spec))
    assert same(found, whole)


def said(text: str) -> str:
    """What `explain` says of one long partition."""
    schema = Schema(tuple(Column(n, t) for n, t in TYPES.items()))
    (line,) = re.findall("most of the rows: (.*)", explain_window_query(text, {"rows": schema}))
    return str(line)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal rows in order, doubles within 1e-9."""
    from tests.window_by.paper import close

    return close(left.to_pylist(), right.to_pylist())
