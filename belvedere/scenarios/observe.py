"""Observations for the expectations of a scenario, as lines of text.

In: the world of a running scenario and an expectation. Out: `Observation`: the present lines, in the form in which they
are written into a file, and whether the file has the same. It changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.exporting.event_files import json_lines
from belvedere.errors import BelvedereError, fail
from belvedere.lang.select.standard_sql import expand
from belvedere.pipeline.choose import maintain
from belvedere.pipeline.explain import explain, explanation_text
from belvedere.plan.plan_text import plan_text
from belvedere.scenarios.cells import by_value, read_rows, same_rows, write_cell, write_table
from belvedere.scenarios.parse import Step
from belvedere.scenarios.scenario_state import World
from belvedere.schema import Column
from belvedere.terminal.diagnostics import render

SIGN = "+/-"
SEQUENCE = "_seq"


@dataclass(frozen=True)
class Observation:
    """The actual lines, and whether they are as expected."""

    lines: Sequence[str]
    same: bool


def text_of(lines: Sequence[str], step: Step) -> Observation:
    """Return an observation of text that must match line by line; trailing blanks are ignored."""
    requested = [line.rstrip() for line in step.section.text.split("\n") if line.strip()]
    return Observation(lines, requested == [line.rstrip() for line in lines if line.strip()])


def _table(
    world: World, step: Step, rows: list[dict[str, Any]], *, ordered: bool, signs: Sequence[str] = ()
) -> Observation:
    """Return rows as a table with the columns that the expectation names, or with all columns."""
    catalog = world.workbench.catalog
    named, expected = read_rows(step.section.body)
    columns = _columns(catalog, step.arguments["relation"], [n for n in named if n != SIGN])
    if signs:
        rows = [{**row, SIGN: sign} for row, sign in zip(rows, signs, strict=True)]
    shown = [_SIGNS, *columns] if signs or SIGN in named else columns
    if not ordered:
        rows = sorted(rows, key=lambda row: by_value([row[c.name] for c in shown]))
    lines = write_table([c.name for c in shown], [[write_cell(row[c.name]) for c in shown] for row in rows])
    folded = {c.name.casefold(): c.name for c in shown}
    requested = [{folded.get(k.casefold(), k): v for k, v in row.items()} for row in expected]
    unknown = [k for row in requested for k in row if k not in folded.values()]
    spelled = not named or named == [c.name for c in shown]
    return Observation(lines, not unknown and spelled and same_rows(requested, rows, shown, ordered=ordered))


def _columns(catalog: Catalog, name: str, named: list[str]) -> list[Column]:
    id_ = catalog.find(name)
    if id_ is None:
        known = ", ".join([*catalog.inputs, *catalog.views, *catalog.subscriptions])
        raise fail("B2001", f'the script defines no "{name}"', hint=f"it defines {known}")
    columns = list(catalog.schema_of(id_).visible)
    known_names = {c.name.casefold(): c for c in columns}
    if unknown := [n for n in named if n.casefold() not in known_names]:
        raise fail(
            "B2002",
            f'"{name}" has no column "{unknown[0]}"',
            hint=f"its columns are {', '.join(c.name for c in columns)}",
        )
    return [known_names[n.casefold()] for n in named] or columns


def _rows(world: World, step: Step) -> Observation:
    relation = step.arguments["relation"]
    return _table(world, step, world.workbench.rows(relation), ordered="ordered" in step.arguments)


def _changes(world: World, step: Step) -> Observation:
    changes = world.workbench.changes(step.arguments["relation"])
    signs = ["+" if weight > 0 else "-" for _, weight in changes for _ in range(abs(weight))]
    rows = [row for row, weight in changes for _ in range(abs(weight))]
    return _table(world, step, rows, ordered=False, signs=signs)


def _events(world: World, step: Step) -> Observation:
    rows = list(world.workbench.rows(step.arguments["relation"]))
    if rows and SEQUENCE in rows[0]:
        rows = sorted(rows, key=lambda row: row[SEQUENCE])
    return _table(world, step, rows, ordered=True)


def _answer(world: World, step: Step) -> Observation:
    answer = {k: v for k, v in world.answer.items() if k != "extensions"}
    try:
        same = json.loads(step.section.text) == answer
    except ValueError:
        same = False
    return Observation(write_json(answer).split("\n"), same)


def write_json(value: Any, indent: str = "") -> str:
    """Return JSON in which values that fit on a line are on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + len(indent) <= 110 or not isinstance(value, dict | list) or not value:
        return flat
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{deeper}{json.dumps(k, ensure_ascii=False)}: {write_json(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}"
    return "[\n" + ",\n".join(deeper + write_json(v, deeper) for v in value) + f"\n{indent}]"


def _error(world: World, step: Step) -> Observation:
    """Return code and message per line; an expected line that has only the code accepts any message."""
    lines = [f"{d.code}: {d.message}" for d in world.errors]
    requested = [line.strip() for line in step.section.text.split("\n") if line.strip()]
    same = len(requested) == len(lines) and all(
        line == wish or line.split(":")[0] == wish for line, wish in zip(lines, requested, strict=True)
    )
    return Observation(lines, same and bool(lines))


def _diagnostics(world: World, step: Step) -> Observation:
    text = render(world.compiled.diagnostics, world.texts).replace(f"{world.home}/", "")
    return text_of(text.rstrip("\n").split("\n"), step)


def _exported(world: World, step: Step) -> Observation:
    sink, target = step.arguments["sink"], step.arguments["target"]
    files: list[Path] = (
        sorted((world.sinks / sink / target).glob("*")) if (world.sinks / sink / target).is_dir() else []
    )
    lines = [line for file in files for line in (file.name, *(f"  {row}" for row in _delivered(file)))]
    lines += [line for line in world.console.splitlines() if line.startswith(f"{target} ")]
    return text_of(lines, step)


def _delivered(file: Path) -> list[str]:
    """Return the lines of a file; for a Parquet file its rows as JSON."""
    if file.suffix != ".parquet":
        return file.read_text(encoding="utf-8").splitlines()

    return json_lines(pq.read_table(file, partitioning=None))


def _explain(world: World, step: Step) -> Observation:
    catalog = _compiled(world)
    _columns(catalog, step.arguments["relation"], [])
    found = [
        e for e in explain(catalog, maintain(catalog)) if e.name.casefold() == step.arguments["relation"].casefold()
    ]
    return text_of([line for e in found for line in explanation_text(e).split("\n")], step)


def _plan(world: World, step: Step) -> Observation:
    catalog, id_ = _view(world, step)
    return text_of(plan_text(catalog.views[id_].plan).split("\n"), step)


def _sql(world: World, step: Step) -> Observation:
    catalog, id_ = _view(world, step)
    return text_of(expand(catalog, id_).split("\n"), step)


def _view(world: World, step: Step) -> tuple[Catalog, str]:
    catalog = _compiled(world)
    id_ = catalog.find(step.arguments["relation"])
    if id_ is None or id_ not in catalog.views:
        raise fail(
            "B2001",
            f'the script defines no view "{step.arguments["relation"]}"',
            hint=f"it defines {', '.join(catalog.views)}",
        )
    return catalog, id_


def _compiled(world: World) -> Catalog:
    if not world.compiled.ok:
        raise BelvedereError(world.compiled.diagnostics)
    return world.compiled.catalog


_SIGNS = Column(SIGN, pa.string())

OBSERVE: dict[str, Callable[[World, Step], Observation]] = {
    "rows": _rows,
    "changes": _changes,
    "events": _events,
    "answer": _answer,
    "error": _error,
    "diagnostics": _diagnostics,
    "exported": _exported,
    "explain": _explain,
    "plan": _plan,
    "sql": _sql,
}
