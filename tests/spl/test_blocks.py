"""Epochs of windows that are read in blocks of two rows equal those that read all rows, without Spark."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from belvedere.compiler import compile_script
from belvedere.engine.arrow_copy import hashes
from belvedere.engine.relation import Relation, arranged_schema
from belvedere.engine.rows.epoch_rows import Rows
from belvedere.engine.rows.selected_rows import streamed
from belvedere.pipeline.choose import maintain
from belvedere.rules.spl import block_columns, buffered_rows, window_epoch
from belvedere.rules.spl.firing_memory import WindowMemory
from belvedere.rules.spl.window_rule import SplStage
from belvedere.rules.spl.window_state import BLOCK, PART, TIME, UNDER
from belvedere.schema import KEY, TIMESTAMP
from belvedere.state.arrangement import Arrangement
from belvedere.state.sorted_run import Arranged
from belvedere.values.instants import microseconds
from tests.depth import at_night

START = datetime(2020, 1, 1, tzinfo=UTC)
COLUMNS = "k INT NOT NULL, x BIGINT, d DECIMAL(10, 2), r DOUBLE, s STRING, level INT, free INT"
AGGREGATES = (
    "count(*) AS a, count(x) AS b, sum(x) AS c, avg(x) AS e, min(x) AS f, max(x) AS g, sum(d) AS h, sum(r) AS i, "
    "max(s) AS l, first(s) AS m, last(x) AS n, stddev(r) AS o, sum(x) FILTER (WHERE free > 0) AS p, firing() AS "
    "number, firingTime() AS at"
)
EVICTIONS = (
    "count(5)",
    "count(11)",
    "count(40)",
    "time(4)",
    "time(30)",
    "delta(level, 6)",
    "delta(level, 30)",
    "delta(free, 9)",
)
TRIGGERS = ("count(1)", "count(3)", "time(3)", "delta(level, 4)", "delta(free, 2)")


class Epochs:
    """The stage of one view over arrangements in memory; epoch by epoch what it makes of the rows that arrive."""

    def __init__(self, window: str):
        view = f"V := SELECT STREAM k, {AGGREGATES} FROM Given WINDOW ({window}) GROUP BY k;"
        compiled = compile_script(f"CREATE STREAM Given ({COLUMNS});\n{view}")
        assert compiled.ok, compiled.diagnostics
        pipeline = maintain(compiled.catalog)
        self.stage = next(s for s in pipeline.stages if isinstance(s, SplStage))
        self.states = {name: pipeline.relations[name] for name in self.stage.states}
        self.stored = {n: Arrangement(arranged(r), lambda made: made, 1 << 20) for n, r in self.states.items()}
        self.memory = WindowMemory()
        self.made: list[dict[str, Any]] = []

    def step(self, rows: list[dict[str, Any]], now: datetime) -> None:
        work: Any = SimpleNamespace(
            clock=now,
            recall=lambda _: self.memory,
            is_fresh=False,
            prepared=SimpleNamespace(states=self.states),
            put_deltas=lambda: bool(rows),
            sql={"input": ""},
            compute=SimpleNamespace(compute=lambda _, schema: Rows(arrived(self.stage, rows, now, schema))),
            look_up=lambda name, by, keys: self._found(name, self.stored[name].look_up(by, keys)),
            look_up_range=lambda name, *of: self._found(name, self.stored[name].look_up_range(*of)),
            stored_schema=lambda name: arranged_schema(self.states[name]),
            append=lambda rows, name: self.stored[name].append(rows.table.to_batches()),
            overwrite=lambda name, by, keys, rows: self.stored[name].overwrite(by, keys, streamed(rows)),
        )
        window_epoch.run_windows(self.stage, work)

    def _found(self, name: str, batches: Iterator[pa.RecordBatch]) -> Rows:
        return Rows(pa.Table.from_batches(batches, arranged_schema(self.states[name])))


def arranged(r: Relation) -> Arranged:
    return Arranged(r.name, arranged_schema(r), r.stored_paths, r.ranges)


def arrived(stage: SplStage, rows: list[dict[str, Any]], now: datetime, schema: pa.Schema) -> pa.Table:
    """Rows as the stage's query gives them: under the names of its input, with the key and the hash of their
    partition."""
    given: dict[str, list[Any]] = {n: [r[n] for r in rows] for n in rows[0]}
    keys = pa.array(given["k"], pa.int32())
    made: dict[str, Any] = {PART: keys.cast(pa.string()), block_columns.PATH: pa.array(hashes([keys], len(rows)))}
    made |= {name: pa.array([0] * len(rows)) for name in (UNDER, TIME, BLOCK, block_columns.BLOCK_PATH)}
    made[KEY] = pa.array([str(n) for n in given["number"]])
    made[stage.node.order] = pa.array(given["number"])
    made[stage.node.clock] = pa.array([microseconds(now)] * len(rows), pa.int64()).cast(TIMESTAMP)
    condition = pa.array([f > 0 for f in given["free"]])
    columns = {}
    for field in schema:
        name = field.name.rpartition(".")[2]
        columns[field.name] = made.get(field.name, pa.array(given[name]) if name in given else condition).cast(
            field.type
        )
    return pa.table(columns, schema=schema)


def epochs(pick: random.Random) -> Iterator[tuple[list[dict[str, Any]], datetime]]:
    """Rows of three partitions; the level rises, but now and then one row is far below it."""
    level, number, now, falls = 0, 0, START, pick.random() < 0.5
    for _ in range(12):
        now += timedelta(seconds=pick.choice([0, 1, 1, 2, 7]))
        rows = []
        for _ in range(pick.choice([0, 1, 2, 5, 15])):
            number, level = number + 1, level + pick.choice([0, 0, 1, 2])
            x, r = pick.choice([number, -number, None]), pick.choice([number / 8, -1e9, 1e9, None])
            row = {
                "k": pick.choice([1, 1, 2, 3]),
                "x": x,
                "d": None if x is None else Decimal(x),
                "r": r,
                "s": pick.choice([f"s{number}", None]),
            }
            rows.append(
                row
                | {
                    "number": number,
                    "level": level - (5 if falls and pick.random() < 0.07 else 0),
                    "free": pick.randint(-3, 9),
                }
            )
        yield rows, now


def clause(pick: random.Random) -> str:
    words = (
        ["sliding", pick.choice(EVICTIONS), pick.choice(TRIGGERS)]
        if pick.random() < 0.8
        else ["tumbling", pick.choice(EVICTIONS)]
    )
    incomplete = words[0] == "sliding" and pick.random() < 0.7
    words += ["partitioned BY k", *(["partitionAge(5)"] if pick.random() < 0.3 else [])]
    return ", ".join([*words, *(["aggregateIncompleteWindows"] if incomplete else [])])


@pytest.mark.parametrize("seed", [*range(20), *at_night(range(100, 400))])
def test_blocks_are_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(seed)
    window, given, answers = clause(pick), list(epochs(pick)), []
    for size in (2, 1 << 40):
        for module in (block_columns, buffered_rows):
            monkeypatch.setattr(module, "BLOCK_ROWS", size)
        found = Epochs(window)
        monkeypatch.setattr(
            window_epoch, "_written", lambda _s, _w, made, _h, of=found: of.made.extend(made.to_pylist())
        )
        for rows, now in given:
            found.step(rows, now)
        answers.append(found.made)
    assert len(answers[0]) == len(answers[1])
    for row, other in zip(*answers, strict=True):
        assert all(same(row[n], other[n]) for n in row), window


def same(left: Any, right: Any) -> bool:
    """Whether values are equal, doubles within 1e-9 relative."""
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-6)
    return bool(left == right)


@pytest.mark.parametrize(
    ("read", "window", "said"),
    [
        ("sum(x) AS total", "sliding, count(512)", "its state, read by blocks of 256"),
        ("stddev(r) AS spread", "tumbling, time(60)", "its state, read by blocks of 256"),
        ("sum(x) AS total", "sliding, count(511)", "its state"),
        (
            "sum(x) AS total, collect_list(s) AS held",
            "sliding, time(60)",
            "its state, read as a whole for COLLECT_LIST(`Given.s`)",
        ),
    ],
)
def test_explain_says_how_contents_are_read(read: str, window: str, said: str) -> None:
    script = f"CREATE STREAM Given ({COLUMNS});\nV := SELECT {read} FROM Given WINDOW ({window});"
    pipeline = maintain(compile_script(script).catalog)
    assert next(s for s in pipeline.stages if isinstance(s, SplStage)).reason.endswith(said)
