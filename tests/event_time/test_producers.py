"""Producers, bounds and late rows: the recorded cases without any engine, and what they leave open."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.catalog.inputs import Input, InputKind, LatePolicy, Watermark
from belvedere.compiler import compile_script
from belvedere.engine.late_rows import judge
from belvedere.schema import TIMESTAMP, UID, Column, Schema
from belvedere.time.event_time import (
    Clocks,
    admit,
    close_producer,
    open_producer,
    pass_time,
    send_bound,
)
from belvedere.time.intake_entries import Act, BoundMark, ProducerAct
from belvedere.time.producers import StreamClock, advanced, bounded, closed, holding_back, opened
from belvedere.values.instants import microseconds
from tests.event_time.cases import at, rowtime_cases

MINUTE = 60_000_000


def stream(name: str, *marks: Watermark, late: LatePolicy = LatePolicy.REJECT) -> Input:
    columns = tuple(Column(m.column, TIMESTAMP) for m in marks)
    hidden = (Column(UID, pa.int64(), False, True),)
    return Input(name, name, InputKind.STREAM, Schema((*columns, *hidden), (UID,)), watermarks=marks, late=late)


def rows(*times: str | None, column: str = "rowtime") -> pa.Table:
    return pa.table({column: pa.array([None if t is None else at(t) for t in times], TIMESTAMP)})


class Merge:
    """Rows that wait for the least bound of some streams (a union) or of a stream's producers (one stream)."""

    def __init__(self, case: dict[str, Any]):
        self.named = case["kind"] == "named_stream"
        self.clocks = Clocks()
        self.waiting: list[tuple[int, int, str, str]] = []
        self.output: list[list[str]] = []
        self.errors: list[list[str]] = []
        names = {s[1] for s in case["steps"]}
        self.inputs = {n: stream("S" if self.named else n, Watermark("rowtime", 0)) for n in names}

    def step(self, action: str, name: str, *rest: str) -> None:
        table, producer = self.inputs[name], name if self.named else None
        if action == "open":
            bound = microseconds(at(rest[0])) if rest else None
            self.clocks = open_producer(self.clocks, table, producer, bound, 0)
        elif action == "close":
            self.clocks = close_producer(self.clocks, table, producer, 0)
        elif action == "bound":
            self.clocks = send_bound(
                self.clocks, table, "rowtime", microseconds(at(rest[0])), 0, producer, strict=False
            )
        else:
            admission = admit(self.clocks, table, rows(rest[0]), 0, producer)
            self.clocks = admission.clocks
            if admission.late:
                self.errors.append([name, *rest])
            else:
                self.waiting.append((microseconds(at(rest[0])), len(self.waiting), rest[1], rest[0]))
        self.release()

    def release(self) -> None:
        bounds = [self.clocks.bound(t.id, "rowtime") for t in self.inputs.values()]
        known = [b for b in bounds if b is not None]
        if len(known) < len(bounds):
            return
        ready = sorted(w for w in self.waiting if w[0] <= min(known))
        self.output += [[name, text] for _, _, name, text in ready]
        self.waiting = [w for w in self.waiting if w not in ready]


@pytest.mark.parametrize("case", rowtime_cases("union", "named_stream"), ids=lambda c: c["name"])
def test_rows_wait_for_the_least_bound(case: dict[str, Any]) -> None:
    merge = Merge(case)
    for action, name, *rest, after in case["steps"]:
        merge.step(action, name, *rest)
        merge.clocks = Clocks.of_document(json.loads(json.dumps(merge.clocks.as_document())))
        assert merge.output == after["output_so_far"], (action, name, *rest)
    assert merge.output == case["expected_output"]
    assert merge.errors == case["expected_errors"]
    assert [[name, text] for _, _, name, text in sorted(merge.waiting)] == case["still_waiting"]


def test_late_rows_are_compared_with_the_clock_and_not_with_each_other() -> None:
    table = stream("s", Watermark("rowtime", 0))
    clocks = send_bound(Clocks(), table, "rowtime", microseconds(at("10:00")), 0, None, strict=False)
    admission = admit(clocks, table, rows("9:58", "9:47", "9:59"), 0)
    assert [r.index for r in admission.late] == [0, 1, 2]
    assert {r.bound for r in admission.late} == {microseconds(at("10:00"))}
    assert admission.taken.num_rows == 0
    assert admission.clocks.counts["s"].given == admission.clocks.counts["s"].late == 3


def test_each_row_is_a_bound_for_the_next_one_of_the_same_call() -> None:
    table = stream("s", Watermark("rowtime", 0))
    admission = admit(Clocks(), table, rows("10:01", "10:00", "10:01", "10:02"), 0)
    assert [(r.index, r.bound) for r in admission.late] == [(1, microseconds(at("10:01")))]
    assert admission.clocks.bound("s", "rowtime") == microseconds(at("10:02"))


def test_a_delay_lets_rows_come_out_of_order() -> None:
    table = stream("s", Watermark("ts", 5 * MINUTE))
    admission = admit(Clocks(), table, rows("10:00", "9:55", "10:01", "9:55", column="ts"), 0)
    assert [r.index for r in admission.late] == [3]
    assert admission.clocks.bound("s", "ts") == microseconds(at("9:56"))


def test_without_a_delay_rows_imply_no_bound() -> None:
    table = stream("s", Watermark("ts"))
    admission = admit(Clocks(), table, rows("10:00", "9:00", column="ts"), 0)
    assert not admission.late
    assert admission.clocks.bound("s", "ts") is None


def test_a_row_exactly_at_the_bound_is_not_late_but_is_at_a_strict_one() -> None:
    table = stream("s", Watermark("ts"))
    for strict, late in ((False, 0), (True, 1)):
        clocks = send_bound(Clocks(), table, "ts", microseconds(at("8:05")), 0, None, strict)
        assert len(admit(clocks, table, rows("8:05", column="ts"), 0).late) == late
    assert clocks.bound("s", "ts") == microseconds(at("8:05:00.001"))


def test_null_times_are_never_late_and_imply_nothing() -> None:
    table = stream("s", Watermark("rowtime", 0))
    admission = admit(Clocks(), table, rows(None, "10:00", None), 0)
    assert not admission.late
    assert admission.clocks.bound("s", "rowtime") == microseconds(at("10:00"))
    assert admit(Clocks(), table, rows(None), 0).clocks.bound("s", "rowtime") is None


def test_kept_late_rows_count_and_never_move_the_bound_back() -> None:
    table = stream("s", Watermark("rowtime", 0), late=LatePolicy.KEEP)
    admission = admit(Clocks(), table, rows("10:00", "9:00"), 0)
    assert admission.taken.num_rows == 2
    assert admission.clocks.bound("s", "rowtime") == microseconds(at("10:00"))


def test_an_opening_bound_binds_its_producer_alone_until_a_row_came() -> None:
    table = stream("s", Watermark("rowtime", 0))
    clocks = open_producer(Clocks(), table, "p1", microseconds(at("10:00")), 0)
    assert clocks.bound("s", "rowtime") is None
    assert admit(clocks, table, rows("9:59"), 0, "p1").late
    assert not admit(clocks, table, rows("9:50"), 0, "p2").late


def test_the_stream_remembers_its_bound_after_all_producers_left() -> None:
    table = stream("s", Watermark("rowtime", 0))
    clocks = admit(Clocks(), table, rows("10:00"), 0, "p1").clocks
    clocks = close_producer(clocks, table, "p1", 0)
    assert not clocks.clock("s", "rowtime").producers
    assert admit(clocks, table, rows("9:59"), 0, "p3").late
    assert not admit(clocks, table, rows("10:00"), 0, "p3").late


def test_what_waits_may_pass_once_the_last_producer_left() -> None:
    table = stream("s", Watermark("rowtime", 0))
    clocks = open_producer(Clocks(), table, "p2", None, 0)
    clocks = admit(clocks, table, rows("10:05"), 0, "p1").clocks
    assert clocks.bound("s", "rowtime") is None
    clocks = close_producer(close_producer(clocks, table, "p1", 0), table, "p2", 0)
    assert clocks.bound("s", "rowtime") == microseconds(at("10:05"))


def test_a_row_late_by_one_event_time_does_not_move_the_other() -> None:
    table = stream("s", Watermark("a", 0), Watermark("b", 0))
    times = pa.table(
        {
            "a": pa.array([at("10:00"), at("9:00"), at("10:30")], TIMESTAMP),
            "b": pa.array([at("10:00"), at("12:00"), at("11:00")], TIMESTAMP),
        }
    )
    admission = admit(Clocks(), table, times, 0)
    assert [(r.index, r.column) for r in admission.late] == [(1, "a")]
    assert admission.clocks.bound("s", "b") == microseconds(at("11:00"))


def test_a_silent_producer_stops_holding_back_and_the_bound_is_marked() -> None:
    from belvedere.catalog.catalog import Catalog

    table = stream("s", Watermark("rowtime", 0, idle_after=MINUTE))
    catalog = Catalog({"s": table})
    clocks = admit(Clocks(), table, rows("10:00"), 0, "slow").clocks
    clocks = admit(clocks, table, rows("10:10"), 30_000_000, "fast").clocks
    assert pass_time(clocks, catalog, MINUTE - 1).bound("s", "rowtime") == microseconds(at("10:00"))
    for _ in range(2):  # the mark stays as long as nothing changes
        clocks = pass_time(clocks, catalog, MINUTE)
        assert clocks.bound("s", "rowtime") == microseconds(at("10:10"))
        assert clocks.clock("s", "rowtime").assumed
    assert admit(clocks, table, rows("10:05"), MINUTE, "slow").late
    clocks = admit(clocks, table, rows("10:10"), MINUTE, "slow").clocks
    assert not clocks.clock("s", "rowtime").assumed


def test_calls_may_be_cut_anywhere() -> None:
    random = Random(7)
    for _ in range(200):
        marks = [Watermark("rowtime", random.choice([0, MINUTE, None]))]
        if random.random() < 0.3:
            marks.append(Watermark("other", random.choice([0, 2 * MINUTE])))
        table = stream("s", *marks)
        size = random.randint(1, 12)
        data = {
            m.column: [random.choice([None, at(f"10:{random.randint(10, 20)}")]) for _ in range(size)] for m in marks
        }
        whole = pa.table({n: pa.array(v, TIMESTAMP) for n, v in data.items()})
        together = admit(Clocks(), table, whole, 0)
        clocks, late, start = Clocks(), [], 0
        while start < size:
            part = whole.slice(start, random.randint(1, 4))
            admission = admit(clocks, table, part, 0)
            late += [start + r.index for r in admission.late]
            clocks, start = admission.clocks, start + part.num_rows
        assert late == [r.index for r in together.late]
        assert clocks == together.clocks


def test_who_holds_a_stream_back() -> None:
    clock = opened(StreamClock(), "p1", None, 0)
    assert holding_back(clock) == ("p1",)
    clock = bounded(clock, "p2", 50, 0)
    assert holding_back(clock) == ("p1",)
    clock = bounded(clock, "p1", 20, 100)
    assert (clock.bound, holding_back(clock)) == (20, ("p1",))
    internal = advanced(bounded(clock, "p2", 60, 1_000), 500, 1_000)  # p1 was silent for too long
    assert (internal.bound, internal.assumed, holding_back(internal)) == (60, True, ())
    assert holding_back(bounded(clock, "p1", 50, 0)) == ()
    assert holding_back(closed(clock, "p1", 0)) == ()


def test_bounds_among_rows_count_for_the_rows_behind_them() -> None:
    catalog = compile_script("CREATE STREAM s (ts TIMESTAMP, WATERMARK FOR ts) LATE DROP;").catalog
    given = rows("10:00", "10:10", "9:00", "10:30", "10:20", column="ts")
    marks = [
        BoundMark(2, ProducerAct(Act.BOUND, "s", 0, None, microseconds(at("9:30")), "ts")),
        BoundMark(4, ProducerAct(Act.BOUND, "s", 0, None, microseconds(at("10:30")), "ts")),
    ]
    used, clocks, _ = judge(catalog, Clocks(), {"s": given}, at("12:00"), {"s": marks})
    assert used["s"].num_rows == 3
    assert [r["ts"] for r in used["LATE(s)"].to_pylist()] == [at("9:00"), at("10:20")]
    assert clocks.bound("s", "ts") == microseconds(at("10:30"))
    counts = clocks.counts["s"]
    assert (counts.given, counts.used, counts.late) == (5, 3, 2)
