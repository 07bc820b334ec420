"""Windows found by blocks that tell each other of their ends are those of the whole sequence: for random framings and cuts."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from belvedere.lang.window_by.blocks import BLOCKS, EXCHANGE, PLAIN, RUNNING
from belvedere.spark.window_by.kernel import compute_windows
from belvedere.spark.window_by.margins import Ends, Margin
from belvedere.spark.window_by.plan import WindowPlan
from belvedere.spark.window_by.specs import Length, Nth
from belvedere.spark.window_by.sql_values import Untranslatable
from tests.window_by.oracle import Framing, Tree, windows
from tests.window_by.random_queries import conditions, text_of
from tests.window_by.test_blocks import said, same, sequences
from tests.window_by.without_spark import plan_of, prepared

exchange = pytest.importorskip("belvedere.spark.window_by.exchange")
heads = pytest.importorskip("belvedere.spark.window_by.running")
blocks = pytest.importorskip("belvedere.spark.window_by.blocks")
cuts = pytest.importorskip("belvedere.spark.window_by.cuts")
Row = dict[str, Any]
SELECT = (
    "w[0].id AS head, LEN(w) AS n, ARRAY_COUNT(w[*].v) AS some, STRICT_COUNT(w[*].v) AS all_of, ARRAY_SUM(w[*].v) AS total, "
    "STRICT_SUM(w[*].v) AS strict, ARRAY_SUM(w[*].x) AS real, ARRAY_AVG(w[*].x) AS mean, ARRAY_AVG(w[*].v) AS middle, "
    "ARRAY_MIN(w[*].s) AS low, ARRAY_MAX((SELECT VALUE t.v FROM w AS t)) AS high, ARRAY_MAX(w[*].x) AS most, "
    "ARRAY_STDDEV_SAMP(w[*].x) AS spread, STRICT_VAR_POP(w[*].v) AS variance, ARRAY_SKEWNESS(w[*].v) AS skew, "
    "ARRAY_COUNT((SELECT VALUE t.v FROM w AS t WHERE t.v > 2)) AS big, "
    "ARRAY_SUM((SELECT VALUE t.v FROM w AS t WHERE t.v > 2)) AS heavy, "
    "w[1].s AS second, w[3].v AS fourth, w[-1].v AS last, w[-2].s AS previous, w[-4] AS early"
)


@st.composite
def framings(draw: st.DrawFn) -> Framing:
    """Framings without LABEL; many windows are long."""
    tumbling = draw(st.booleans())
    start: Tree | str = draw(st.just(("true",)) | conditions("start", ()) | st.just(("true",)))
    if draw(st.integers(0, 9)) == 0:
        start = "unbounded"
    rare: Tree = draw(
        st.sampled_from(
            [
                ("compare", "=", ("field", "end", "item", "id"), ("const", 31)),
                ("compare", ">", ("field", "end", "item", "v"), ("add", ("field", "start", "item", "v"), ("const", 2))),
                ("compare", "=", ("field", "end", "next", "v"), ("field", "start", "previous", "v")),
                ("compare", "=", ("sub", ("pos", "end"), ("pos", "start")), ("const", 17)),
                ("compare", ">", ("sub", ("field", "end", "item", "o"), ("field", "start", "item", "o")), ("const", 12)),
            ]
        )
    )
    own = draw(conditions("end", () if start == "unbounded" else ("start",)))
    if start == "unbounded":
        rare = ("compare", "=", ("field", "end", "item", "id"), ("const", 31))
    end: Tree | str = draw(st.sampled_from([own, rare, ("and", own, rare), "unbounded"]))
    return Framing(tumbling, None, start, end, only=draw(st.booleans()))


@st.composite
def running(draw: st.DrawFn) -> Framing:
    """LABEL with START UNBOUNDED and an END that moves on with the label."""
    ahead, operator = draw(st.integers(0, 5)), draw(st.sampled_from([">", ">="]))
    apart: Tree = ("sub", ("field", "end", draw(st.sampled_from(["item", "next"])), "o"), ("field", "label", "item", "o"))
    exact: Tree = ("compare", "=", ("sub", ("pos", "end"), ("pos", "label")), ("const", ahead))
    end: Tree = draw(
        st.sampled_from(
            [
                exact,
                ("compare", operator, ("sub", ("pos", "end"), ("pos", "label")), ("const", ahead)),
                ("compare", operator, apart, ("const", ahead)),
                ("compare", operator, ("field", "label", "item", "o"), ("field", "end", "item", "o")),
                (
                    "compare",
                    operator,
                    ("field", "end", "item", "o"),
                    ("sub", ("field", "label", "item", "o"), ("const", ahead)),
                ),
            ]
        )
    )
    local: Tree = ("compare", ">", ("field", "end", "item", "v"), ("const", draw(st.integers(0, 3))))
    end = draw(st.sampled_from([end, end, ("and", end, local), ("or", exact, end), draw(conditions("end", ("label",)))]))
    return Framing(False, draw(conditions("label", ())), "unbounded", end, draw(st.booleans()))


def by_heads(table: pa.Table, plan: WindowPlan, places: list[int], nullable: bool) -> pa.Table | None:
    """The windows that run from the first row, by blocks cut at `places`; margins begin with one row and grow. None where a label behind
    a cut has its END before it."""
    spec, rows = replace(plan.spec, ordered=False), table.num_rows
    near, ends = exchange.neighbours(spec), Ends(plan.running(nullable))
    margins = []
    for place in places:
        width = 1
        while True:
            low, high = max(place - width, 0), min(place + width, rows)
            margin = Margin(table.slice(low, high - low), place - low, low, low == 0, high == rows)
            if heads.running_begin(margin, spec, ends, near) is not None:
                break
            if margin.first and margin.last:
                return None
            width *= 2
        margins.append(margin)
    begins = (0, *places, rows)
    own = [table.slice(a, b - a) for a, b in pairwise(begins)]
    told = pickle.loads(pickle.dumps(heads.heads_of(spec, [heads.head_of(o, spec) for o in own])))
    found = cuts.Cuts((), begins, tuple(margins), tuple(m.cut for m in margins))
    parts = [blocks.windows_of_block(o, n, found, spec, told) for n, o in enumerate(own)]
    return pa.concat_tables(p.cast(parts[0].schema) for p in parts)


@given(sequences(), running(), st.booleans(), st.data())
@settings(max_examples=200, deadline=None, phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
def test_running_windows_by_blocks_are_those_of_the_whole(
    rows: list[Row], framing: Framing, descending: bool, data: st.DataObject
) -> None:
    try:
        text = text_with(framing, descending)
        plan = plan_of(text)
    except Untranslatable:
        return
    nullable = any(r["o"] is None for r in rows)
    assert (said(text) == RUNNING) == bool(plan.running(nullable=False))
    if not plan.running(nullable):
        event("not cut")
        return
    table = prepared(plan, rows)
    whole = compute_windows(table, replace(plan.spec, ordered=False))
    least = max(o.index for o in plan.spec.outputs if isinstance(o, Nth)) + 1  # rows of the first block
    if len(rows) <= least:
        return
    places = sorted(data.draw(st.sets(st.integers(least, len(rows) - 1), max_size=5)))
    found = by_heads(table, plan, places, nullable)
    event("not cut there" if found is None else "cut")
    if found is None:
        return
    assert same(found, whole)
    assert said_bounds(found, plan) == naive(in_order(rows, descending), framing)


def said_bounds(found: pa.Table, plan: WindowPlan) -> list[tuple[int, int]]:
    """The first tuple's id and LEN of each window, from the kernels' output."""
    head = next(o.output for o in plan.spec.outputs if isinstance(o, Nth) and o.index == 0)
    length = next(o.output for o in plan.spec.outputs if isinstance(o, Length))
    return list(zip(found[head].to_pylist(), found[length].to_pylist(), strict=True))


def by_exchange(table: pa.Table, plan: WindowPlan, places: list[int]) -> pa.Table:
    """The windows of a sorted sequence cut at `places`; what is exchanged goes through bytes."""
    spec, rows = replace(plan.spec, ordered=False), table.num_rows
    near = exchange.neighbours(spec)

    def block(begin: int, end: int) -> Any:
        low, high = max(begin - near, 0), min(end + near, rows)
        return exchange.Block(table.slice(low, high - low), spec, (begin - low, end - low), low)

    begins = [0, *places, rows]
    own = list(pairwise(begins))
    pending = [pickle.loads(pickle.dumps(block(a, b).pending)) for a, b in own]
    answers = [pickle.loads(pickle.dumps(block(a, b).answer(pending[:n]))) for n, (a, b) in enumerate(own)]
    found = pickle.loads(pickle.dumps(exchange.exchange_plan(spec, begins, pending, answers)))
    parts = [block(a, b).windows(found.entries[n], found.tails[n]) for n, (a, b) in enumerate(own)]
    return pa.concat_tables(p.cast(parts[0].schema) for p in parts)


def text_with(framing: Framing, descending: bool) -> str:
    order = "ORDER BY r.o DESC, r.id " if descending else "ORDER BY r.o, r.id "
    head = re.sub("ORDER BY r.o ", order, text_of(framing).partition(" SELECT ")[0])
    more = []
    if framing.start != "unbounded":
        more = ["s.id AS sid", "sat", "sp.v AS before", "sn.v AS behind"]
    if framing.label is not None:
        more += ["l.id AS lid", "lat", "ln.v AS lbehind"]
    if framing.end != "unbounded":
        more += ["e.id AS eid", "eat", "ep.v AS ebefore", "en.v AS ebehind", "en IS MISSING AS final", "e IS MISSING AS open"]
    return f"{head} SELECT {', '.join([SELECT, *more])}"


def in_order(rows: list[Row], descending: bool) -> list[Row]:
    """ORDER BY r.o, r.id: NULL first, or last for DESC."""
    if descending:
        return sorted(rows, key=lambda r: (r["o"] is None, -(r["o"] or 0), r["id"]))
    return sorted(rows, key=lambda r: (r["o"] is not None, r["o"] or 0, r["id"]))


def naive(rows: list[Row], framing: Framing) -> list[tuple[int, int]]:
    """The first tuple's id and LEN of each window, by trying every tuple."""
    unbounded = framing.end == "unbounded"
    found = windows(rows, framing)
    return [(rows[w.first]["id"], w.last - w.first + 1 + (w.end is None and not unbounded)) for w in found]


@given(sequences(), framings(), st.booleans(), st.data())
@settings(max_examples=400, deadline=None, phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
def test_blocks_that_exchange_give_the_windows_of_the_whole(
    rows: list[Row], framing: Framing, descending: bool, data: st.DataObject
) -> None:
    try:
        plan = plan_of(text_with(framing, descending))
    except Untranslatable:
        return
    text = text_with(framing, descending)
    assert exchange.can_exchange(plan.spec)
    assert said(text) in ((PLAIN,) if plan.spec.end.scan is not None else (BLOCKS, EXCHANGE))
    for more in ("ARRAY_MEDIAN(w[*].v)", "w[*].id", "ARRAY_COUNT(ARRAY_DISTINCT(w[*].v))"):
        whole = text.replace(" SELECT ", f" SELECT {more} AS m, ")
        assert not exchange.can_exchange(plan_of(whole).spec)
        assert said(whole) == BLOCKS or said(whole).startswith("by one task")
    table = prepared(plan, rows)
    places = sorted(data.draw(st.sets(st.integers(1, max(len(rows) - 1, 1)), max_size=6))) if len(rows) > 1 else []
    found = by_exchange(table, plan, places)
    event(f"{'tumbling' if framing.tumbling else 'sliding'}")
    assert same(found, compute_windows(table, replace(plan.spec, ordered=False)))
    assert said_bounds(found, plan) == naive(in_order(rows, descending), framing)
