"""Windows found again in the reach of a change, with those that stay, are those of all rows: for random framings and
changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from belvedere.plan.operators.nodes import Scan
from belvedere.plan.operators.predicate_window import Neighbour, PredicateWindow, Ranges, WindowForm, reach_of
from belvedere.rules.window_by.affected_windows import Reach
from belvedere.schema import KEY, Column, Schema
from belvedere.sqlpp.lower import lower_window_query
from belvedere.sqlpp.parser import parse_window_query
from tests.depth import examples, turn
from tests.window_by.interpreter.interpret_query import compile_query
from tests.window_by.oracle import Framing, Tree
from tests.window_by.random_queries import conditions, labelled, sequence_text
from tests.window_by.without_spark import TYPES, found_windows, window_of

REACH = pytest.importorskip("belvedere.rules.window_by.affected_windows")
STRETCH = pytest.importorskip("belvedere.rules.window_by.scan_range")
Row = dict[str, Any]


class Rows:
    """Rows of one partition by their order keys, as `Spans` has them."""

    def __init__(self, rows: list[Row]):
        self.kept = rows

    def place(self, _: int, start: int, count: int, after: bool) -> int | None:
        found = sorted(
            r["o"] for r in self.kept if r["o"] is not None and (r["o"] > start if after else r["o"] < start)
        )
        return None if len(found) < count else found[count - 1] if after else found[-count]

    def rows(self, _: int, begin: int | None, end: int | None) -> pa.Table:
        def inside(order: int | None) -> bool:
            if order is None:
                return begin is None
            return (begin is None or order >= begin) and (end is None or order <= end)

        found = [{**r, KEY: str(r["id"])} for r in self.kept if inside(r["o"])]
        return pa.Table.from_pylist(found, pa.schema([*TYPES.items(), (KEY, pa.string())]))


class Kept(REACH._Stored):  # type: ignore[misc, name-defined]
    """The rows of one partition and the windows that were stored, in place of a store and Spark."""

    def __init__(self, rows: list[Row], starts: dict[int, int | None], window: PredicateWindow, ranges: Ranges):
        self.reach = Reach(ranges, "o", ("k",), None)
        self.kept, self.begun = rows, starts
        self.spans = self.starts = Rows(rows)
        if ranges.form is WindowForm.TUMBLING:
            self.starts = Rows([{"o": o} for o in starts.values()])
        self.window = reach_of(window, ranges, ranges.column)

    def windows(self, tables: Sequence[pa.Table]) -> list[Any]:
        results = []
        for table in tables:
            found = found_windows(self.window, {"rows": table.select(list(TYPES))})
            (key,) = self.window.schema.key or ()
            results.append(
                STRETCH.windows_of(found.append_column(KEY, found[key].cast(pa.string())), self.reach.ranges)
            )
        return results

    def stored(self, keys: pa.Array) -> pa.Array:
        return pa.array([k for k in keys.to_pylist() if int(k) in self.begun], pa.string())


def answer(text: str, rows: list[Row]) -> dict[int, Row]:
    """The windows by the row where they start."""
    return {f["start"]: f for f in compile_query(parse_window_query(text))({"rows": rows})}


def follow(text: str, window: PredicateWindow, epochs: list[dict[int, Row | None]], rows: dict[int, Row]) -> int:
    """Change the rows epoch by epoch; how many windows stayed untouched in all."""
    ranges = window.ranges
    assert ranges is not None
    kept, stored = 0, answer(text, list(rows.values()))
    for epoch in epochs:
        versions = [v for n, new in epoch.items() for v in (rows.get(n), new) if v is not None]
        starts = {n: rows[n]["o"] for n in stored}
        for number, row in epoch.items():
            if row is None:
                rows.pop(number, None)
            else:
                rows[number] = row
        requested = answer(text, list(rows.values()))
        delta = pa.Table.from_pylist(
            [{**v, "by": 0} for v in versions], pa.schema([*TYPES.items(), ("by", pa.int64())])
        )
        stretches = REACH.first_stretches(delta, "by", "o", ranges) if versions else None
        if stretches is None:
            stored = requested
            continue
        for scan_range in stretches:
            scan_range.ahead = 1
            scan_range.back = 1 if ranges.closing else scan_range.back
        source = Kept(list(rows.values()), starts, window, ranges)
        read, keys = REACH.affected_rows(source, ranges, "o", stretches)
        again = {int(k) for found in keys for k in found.to_pylist()} | set(epoch)
        found = answer(text, read.select(list(TYPES)).to_pylist())
        stored = {n: f for n, f in stored.items() if n not in again} | {n: f for n, f in found.items() if n in again}
        assert stored == requested, text
        kept += len(set(requested) - again)
    return kept


@st.composite
def changes(draw: st.DrawFn, nullable: bool) -> tuple[dict[int, Row], list[dict[int, Row | None]]]:
    """Rows by `id`, many with equal order keys, and what some epochs do to them."""

    def row(number: int, at: int) -> Row:
        value, real = draw(st.none() | st.integers(0, 5)), draw(st.sampled_from([None, 0.0, 1.5]))
        order = None if nullable and draw(st.integers(0, 9)) == 0 else at
        return {"id": number, "k": 0, "o": order, "v": value, "x": real, "s": draw(st.sampled_from(["", "a"]))}

    size = draw(st.integers(5, 30))
    apart = draw(st.sampled_from([1, 2, 3]))
    rows = {n: row(n, n * apart // 2) for n in range(size)}
    epochs: list[dict[int, Row | None]] = []
    for _ in range(draw(st.integers(1, 3))):
        about = draw(st.integers(0, size + 2))
        touched = draw(st.lists(st.integers(about, about + 2), min_size=1, max_size=3, unique=True))
        epochs.append(
            {
                n: None if draw(st.integers(0, 2)) == 0 else row(n, n * apart // 2 + draw(st.integers(-1, 1)))
                for n in touched
            }
        )
    return rows, epochs


def lowered(text: str, nullable: bool) -> PredicateWindow:
    """The operator over rows with a key."""
    scan = Scan(
        "rows",
        Schema(tuple(Column(n, t, nullable=n != "id" and (nullable or n != "o")) for n, t in TYPES.items()), ("id",)),
    )
    return window_of(lower_window_query(text, {"rows": scan})[0])


@st.composite
def unlabelled(draw: st.DrawFn) -> Framing:
    """Framings without LABEL and UNBOUNDED, most of them with an alternative of END that closes many windows."""
    tumbling, end = draw(st.booleans()), draw(conditions("end", ("start",)))
    closing: list[Tree] = [
        (
            "compare",
            ">",
            ("field", "end", draw(st.sampled_from(["item", "next", "previous"])), "v"),
            ("const", draw(st.integers(1, 4))),
        ),
        (
            "compare",
            draw(st.sampled_from(["=", ">", ">="])),
            ("sub", ("pos", "end"), ("pos", "start")),
            ("const", draw(st.integers(0, 4))),
        ),
        (
            "compare",
            ">",
            ("sub", ("field", "end", draw(st.sampled_from(["item", "next"])), "o"), ("field", "start", "item", "o")),
            ("const", 3),
        ),
        ("compare", ">", ("sub", ("field", "start", "item", "o"), ("field", "end", "item", "o")), ("const", 3)),
        ("compare", "=", ("field", "end", "item", "s"), ("const", "a")),
    ]
    one = draw(st.sampled_from(closing))
    choice = draw(st.integers(0, 4))
    if choice == 1:
        one = ("and", one, draw(st.sampled_from(closing)))
    if choice:
        end = one if choice == 2 else ("or", end, one)
    none = tumbling and draw(st.integers(0, 5)) == 0
    return Framing(
        tumbling, None, draw(conditions("start", ())), None if none else end, not none and draw(st.booleans())
    )


@pytest.mark.deep
@given(st.data(), unlabelled() | labelled(), st.booleans(), st.booleans())
@settings(
    max_examples=examples(500),
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
def test_what_a_change_reaches_is_enough(data: st.DataObject, framing: Framing, nullable: bool, falls: bool) -> None:
    text = sequence_text(framing).replace("ORDER BY r.o,", "ORDER BY r.o DESC," if falls else "ORDER BY r.o,")
    if data.draw(st.integers(0, 2)) == 0:
        text = text.replace(" WINDOW BY", " WHERE r.v <> 5 WINDOW BY")
    window = lowered(text, nullable)
    ranges = window.ranges
    if ranges is None:
        event("the whole partition")
        return
    rows, epochs = data.draw(changes(nullable))
    kept = follow(text, window, epochs, rows)
    forms = {WindowForm.TUMBLING: "tumbling", WindowForm.LABELLED: "labelled", WindowForm.SLIDING: "sliding"}
    event(
        f"{'falling ' * falls}{'looking back ' * (Neighbour.PREVIOUS in ranges.neighbours)}{forms[ranges.form]}: "
        f"{'windows stayed' if kept else 'all found again'}"
    )


HEAD = "FROM rows AS r WINDOW BY w ORDER BY r.o, r.id TYPE "
TAIL = " SELECT s.id AS start, w[*].id AS ids"
CLOSE = {
    "ends": "SLIDING START AS s WHEN s.v < 3 END NEXT AS n WHEN n.v >= 3",
    "looks back": "SLIDING START AS s PREV AS b WHEN b.v > 2 END AS e PREV AS p WHEN p.v > e.v",
    "first": "SLIDING START AS s END AS e PREV AS p WHEN p IS MISSING OR e.v = 4",
    "or the last": "SLIDING START AS s END NEXT AS n WHEN n.v >= 3 OR n IS MISSING",
    "counted": "SLIDING START AS s AT sp END AT ep WHEN ep - sp = 2",
    "apart": "SLIDING START AS s ONLY END NEXT AS n WHEN n.o - s.o > 2",
    "spells": "TUMBLING START AS s WHEN s.v < 3 ONLY END NEXT AS n WHEN n.v >= 3",
    "until the next": "TUMBLING START AS s NEXT AS n WHEN n.v > s.v",
    "rises": "TUMBLING START AS s END AS e WHEN e.v > s.v",
    "blocks": "TUMBLING START AS s AT sp END AT ep WHEN ep - sp = 2",
    "falls apart": "SLIDING START AS s END NEXT AS n WHEN s.o - n.o > 2",
    "falls in spells": "TUMBLING START AS s WHEN s.v < 3 END NEXT AS n WHEN n.v >= 3",
    "neighbours": "SLIDING LABEL AS s AT lp WHEN s.v <> 2 START AT sp WHEN lp - sp = 1 END AT ep WHEN ep - lp = 1",
    "the last few": "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp < 3 END AT ep WHEN ep = lp",
    "so long ago": "SLIDING LABEL AS s START AS f WHEN s.o - f.o <= 2 END AS e NEXT AS n WHEN n.o - s.o > 1",
    "only before": "SLIDING LABEL AS s AT lp START AT sp WHEN lp - sp = 4 ONLY END AT ep WHEN lp - ep = 2",
    "only before one": "SLIDING LABEL AS s AT lp NEXT AS m WHEN m.v < 3 START AT sp WHEN lp - sp = 4 ONLY END AT ep "
    "WHEN lp - ep = 2",
    "rises from the one before": "TUMBLING START AS s PREV AS p WHEN s.v > p.v",
    "one after": "TUMBLING START AS s WHEN s.v < 4 END AS e PREV AS q WHEN q.v > 3",
    "falls looking back": "TUMBLING START AS s PREV AS p WHEN s.v < p.v END AS e PREV AS q WHEN e.v > q.v",
}


@pytest.mark.deep
@pytest.mark.parametrize("name", CLOSE)
def test_each_change_of_one_row(name: str) -> None:
    text = (HEAD.replace("r.o,", "r.o DESC,") if "falls" in name else HEAD) + CLOSE[name] + TAIL
    window = lowered(text, nullable=False)
    values = [1, 2, 4, 0, 3, 5, 2, 1, 0, 4, 2, 2, 5, 1, 3, 0, 1, 4]
    rows = {n: {"id": n, "k": 0, "o": n - n % 5 // 4, "v": v, "x": None, "s": ""} for n, v in enumerate(values)}
    kept = 0
    for number, row in turn(rows.items(), list(CLOSE).index(name), 9):
        new = {**row, "id": 100}
        for change in (
            {number: None},
            {number: {**row, "v": 5 - row["v"]}},
            {100: {**new, "v": 0}},
            {100: {**new, "v": 5}},
        ):
            kept += follow(text, window, [change], dict(rows))  # type: ignore[list-item]
    assert kept > 0


def test_starts_without_an_order_key_have_no_end_by_it() -> None:
    for nullable, name, reported in ((True, "apart", False), (False, "apart", True), (True, "ends", True)):
        assert (lowered(HEAD + CLOSE[name] + TAIL, nullable).ranges is not None) is reported


def test_a_later_start_may_end_before_an_earlier_one() -> None:
    for framed in ("START AS s ONLY END AS e WHEN e.v = s.v + 1", "START AS s END AS e WHEN e.v > s.v"):
        assert lowered(HEAD + "SLIDING " + framed + TAIL, nullable=False).ranges is None
