"""Windows found again from the last open one on, over the rows that are kept, are those of all rows: for random
framings and bounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from belvedere.plan.operators.nodes import Scan
from belvedere.plan.operators.predicate_window import (
    AFTER,
    FROM,
    LABEL,
    TO,
    Neighbour,
    PredicateWindow,
    Resume,
    WindowEnd,
    WindowForm,
    reach_of,
)
from belvedere.schema import Column, Schema
from belvedere.sqlpp.lower import lower_window_query
from belvedere.sqlpp.parser import parse_window_query
from tests.depth import examples
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.oracle import Framing
from tests.window_by.random_queries import conditions, labelled, sequence_text
from tests.window_by.without_spark import TYPES, found_windows, table_of, window_of

ROWS = Scan("rows", Schema(tuple(Column(n, t, nullable=n != "o") for n, t in TYPES.items()), ("id",)))
SPARK = pytest.importorskip("belvedere.rules.window_by.expiry")


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[list[dict[str, Any]], int]]:
    """Epochs: rows not below the bound before, and the bound after them."""
    bound, number, epochs = 0, 0, []
    for _ in range(draw(st.integers(2, 5))):
        rows = []
        for _ in range(draw(st.integers(0, 5))):
            number += 1
            at = bound + draw(st.integers(0, 4))
            value, real = draw(st.none() | st.integers(0, 5)), draw(st.sampled_from([None, 0.0, 1.5]))
            rows.append({"id": number, "k": 0, "o": at, "v": value, "x": real, "s": draw(st.sampled_from(["", "a"]))})
        bound += draw(st.integers(0, 4))
        epochs.append((rows, bound))
    return epochs


@st.composite
def framed(draw: st.DrawFn) -> Framing:
    """Framings without UNBOUNDED, many of them with labels whose windows move on with them, or without END."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(labelled().filter(lambda f: f.start != "unbounded"))
    if kind == 1:
        return Framing(True, None, draw(conditions("start", ())), None)
    return Framing(
        draw(st.booleans()),
        None,
        draw(conditions("start", ())),
        draw(conditions("end", ("start",))),
        draw(st.booleans()),
    )


@pytest.mark.deep
@given(framed(), arrivals())
@settings(
    max_examples=examples(300),
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
def test_kept_rows_are_enough(framing: Framing, epochs: list[tuple[list[dict[str, Any]], int]]) -> None:
    text = sequence_text(framing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belvedere.sqlpp.windows.resume.is_time", pa.types.is_integer)
        block = window_of(lower_window_query(text, {"rows": ROWS})[0])
    if block.resume is None:
        event("all rows stay")
        return
    query = parse_window_query(text)
    reach = reach_of(block, block.ranges if block.resume.form is WindowForm.LABELLED else None, block.resume.column)
    everything: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    stored: dict[int, dict[str, Any]] = {}
    since = SPARK.FIRST
    for rows, bound in epochs:
        everything, kept = everything + rows, kept + rows
        open_ = {row["id"] for row in kept if row["o"] >= since}
        stored = {n: r for n, r in stored.items() if n not in open_}
        stored |= {r["start"]: r for r in compile_query(query)({"rows": kept}) if r["start"] in open_}
        requested = {r["start"]: r for r in compile_query(query)({"rows": everything})}
        assert stored == requested, text
        found = final(kept, found_windows(reach, {"rows": table_of(kept)}).to_pylist(), block, bound, since)
        kept = [r for r in kept if r["o"] >= found.rows]
        since = found.since if block.resume.looks_back else since
    kind = (
        "labelled"
        if block.resume.form is WindowForm.LABELLED
        else "endless"
        if block.resume.end is WindowEnd.NEXT_START
        else "tumbling"
        if framing.tumbling
        else "sliding"
    )
    event(
        f"{kind}{' looking back' * (Neighbour.PREVIOUS in block.resume.neighbours)}: "
        f"{'some rows left' if len(kept) < len(everything) else 'no row left'}"
    )


def final(
    rows: list[dict[str, Any]], reach: list[dict[str, Any]], block: PredicateWindow, bound: int, since: int
) -> Any:
    """What stays of one partition."""
    assert block.resume is not None
    spans = sorted(
        (
            tuple(SPARK.LAST if r.get(n) is None else r[n] for n in (LABEL if LABEL in r else FROM, FROM, TO, AFTER))
            for r in reach
        ),
        reverse=True,
    )
    below = max((r["o"] for r in rows if r["o"] < bound), default=None)
    pinned = (
        block.resume.form is WindowForm.LABELLED
        and block.ranges is not None
        and block.ranges.end is WindowEnd.BEFORE_LABEL
    )
    found = SPARK.first_retained(below, spans, block.resume, bound, since, pinned)
    if Neighbour.PREVIOUS in block.resume.neighbours and block.resume.form is not WindowForm.LABELLED:
        found = replace(found, rows=max((r["o"] for r in rows if r["o"] < found.since), default=found.rows))
    return found


def test_a_resume_says_what_it_needs() -> None:
    text = "FROM rows AS r WINDOW BY w ORDER BY r.o TYPE TUMBLING START AS s END NEXT AS n WHEN n.v > 3 SELECT s.id"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belvedere.sqlpp.windows.resume.is_time", pa.types.is_integer)
        found = window_of(lower_window_query(text, {"rows": ROWS})[0])
    (order,) = (c for c in found.reads if found.resume == Resume(c, WindowForm.TUMBLING, frozenset({Neighbour.NEXT})))
    assert found.input.schema[order].type == pa.int64()
