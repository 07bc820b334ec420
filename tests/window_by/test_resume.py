"""Windows found again from the last open one on, over the rows that are kept, are those of all rows: for random framings and bounds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from belvedere.lang.window_by_lower import lower_window_query
from belvedere.lang.window_by_parser import parse_window_query
from belvedere.lang.window_by_resume import AFTER, FROM, TO, extents
from belvedere.plan.nodes import Scan
from belvedere.plan.window_by import Resume
from belvedere.schema import Column, Schema
from belvedere.spark.window_by.interpret_query import compile_query
from tests.window_by.oracle import Framing
from tests.window_by.random_queries import boundary_text, framings

TYPES = {"id": pa.int64(), "k": pa.int64(), "o": pa.int64(), "v": pa.int64(), "x": pa.float64(), "s": pa.string()}
ROWS = Scan("rows~1", Schema(tuple(Column(n, t, nullable=n != "o") for n, t in TYPES.items()), ("id",)))
SPARK = pytest.importorskip("belvedere.spark.window_forget")


def query_of(framing: Framing) -> str:
    """The framing over one sequence, with the variables that it uses."""
    end = boundary_text("end", framing.end or ("true",))
    boundaries = f"{boundary_text('start', framing.start)} {'ONLY ' if framing.only else ''}{end}"
    for clause, name in re.findall(r"((?:AT|PREV AS|NEXT AS) (\w+))", boundaries):
        if len(re.findall(rf"\b{name}\b", boundaries)) == 1:
            boundaries = boundaries.replace(f" {clause}", "", 1)
    kind = "TUMBLING" if framing.tumbling else "SLIDING"
    return f"FROM rows AS r WINDOW BY w ORDER BY r.o, r.id TYPE {kind} {boundaries} SELECT s.id AS start, e.id AS finish, w[*].id AS ids"


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


@given(framings().filter(lambda f: f.label is None and f.start != "unbounded" and f.end not in (None, "unbounded")), arrivals())
@settings(max_examples=120, deadline=None, phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
def test_kept_rows_are_enough(framing: Framing, epochs: list[tuple[list[dict[str, Any]], int]]) -> None:
    text = query_of(framing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belvedere.lang.window_by_resume.is_time", pa.types.is_integer)
        block = lower_window_query(text, {"rows": ROWS})[0]
    if block.resume is None:
        event("all rows stay")
        return
    query, reach = parse_window_query(text), extents(parse_window_query(text))
    everything: list[dict[str, Any]] = []
    kept: list[dict[str, Any]] = []
    stored: dict[int, dict[str, Any]] = {}
    for rows, bound in epochs:
        everything, kept = everything + rows, kept + rows
        for row in kept:
            stored.pop(row["id"], None)
        stored |= {r["start"]: r for r in compile_query(query)({"rows": kept})}
        wanted = {r["start"]: r for r in compile_query(query)({"rows": everything})}
        assert stored == wanted, text
        kept = settled(kept, compile_query(reach)({"rows": kept}), block.resume, bound)
    event("some rows left" if len(kept) < len(everything) else "no row left")


def settled(rows: list[dict[str, Any]], reach: list[dict[str, Any]], resume: Resume, bound: int) -> list[dict[str, Any]]:
    spans = [tuple(r.get(n, SPARK.LAST) for n in (FROM, TO, AFTER)) for r in reach]
    gone = set(SPARK.settled(np.array([r["o"] for r in rows], np.int64), spans, resume, bound, list(range(len(rows)))))
    return [r for n, r in enumerate(rows) if n not in gone]


def test_a_resume_says_what_it_needs() -> None:
    text = "FROM rows AS r WINDOW BY w ORDER BY r.o TYPE TUMBLING START AS s END NEXT AS n WHEN n.v > 3 SELECT s.id"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("belvedere.lang.window_by_resume.is_time", pa.types.is_integer)
        assert lower_window_query(text, {"rows": ROWS})[0].resume == Resume("o", ahead=True, tumbling=True)
