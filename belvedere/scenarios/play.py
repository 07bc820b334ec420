"""Execution of one scenario, with the result of each expectation.

In: a scenario, the path of its file, a function that returns a Spark session (called only if the scenario steps). Out:
an `Outcome`: a check per expectation and per unexpected error. It writes only into its own folder: sinks write there
too.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError, Diagnostic, counted, fail
from belvedere.process.temporary_folders import process_folder
from belvedere.project.settings import ProjectSettings, Sink
from belvedere.scenarios.cells import read_rows, same_rows
from belvedere.scenarios.observe import OBSERVE, Observation
from belvedere.scenarios.parse import Scenario, Step
from belvedere.scenarios.scenario_state import World
from belvedere.terminal.diagnostics import render
from belvedere.workbench.workbench import Workbench

FIRST_CLOCK = "2020-01-01 00:00:00"
"""Clock of a scenario that sets none, so that its result does not depend on the date."""


@dataclass(frozen=True)
class Expectation:
    """Result of an expectation or of a failed step: expected and actual lines; `actual` is None if there is nothing to
    show."""

    step: Step
    ok: bool
    expected: tuple[str, ...] = ()
    actual: tuple[str, ...] | None = None
    message: str = ""


@dataclass
class Outcome:
    """Result of a scenario; `trouble` are errors that ended it and `seconds` its duration."""

    scenario: Scenario
    checks: list[Expectation] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Return whether every expectation was met."""
        return not self.trouble and all(c.ok for c in self.checks)


def run_scenario(scenario: Scenario, file: Path, spark: Callable[[], Any], *, batch: bool = False) -> Outcome:
    """Run a scenario of `file`. With `batch` every stored view is also compared with its batch answer at the end."""
    outcome, started = Outcome(scenario), perf_counter()
    with tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True) as folder:
        try:
            _run(scenario, file, spark, Path(folder), outcome, batch)
        except BelvedereError as error:
            outcome.trouble += [_diagnostic_text(d) for d in error.diagnostics]
    outcome.seconds = perf_counter() - started
    return outcome


def _run(scenario: Scenario, file: Path, spark: Callable[[], Any], folder: Path, outcome: Outcome, batch: bool) -> None:
    home = _home(scenario, file, folder)
    project = _inside(load_project(home), folder / "sinks")
    name, text = _script(scenario, file)
    anywhere = replace(project, store=None)  # a test always has its own store
    found = compile_script(text, path=home / name if scenario.path else None, project=anywhere)
    compiled = replace(found, diagnostics=(*project.diagnostics, *found.diagnostics))
    texts = {str(home / s.arguments["name"]): "\n".join(s.section.body) for s in scenario.steps if s.kind == "file"}
    world = World(compiled, {**texts, name: text, str(home / name): text}, folder / "sinks", home)
    expected = {s.kind for s in scenario.steps}
    if not compiled.ok and "diagnostics" not in expected:
        outcome.trouble.append(render(compiled.diagnostics, world.texts))
        return
    doing = [s for s in scenario.steps if not s.expects and s.kind != "file"]
    with _bench(
        world, project, spark if doing or expected & {"rows", "changes", "events"} else None, _first_clock(scenario)
    ):
        for step in scenario.steps:
            if not _take(step, scenario, world, outcome):
                return
        if batch and world.bench is not None:
            outcome.trouble += _against_batch(world.bench)


def _home(scenario: Scenario, file: Path, folder: Path) -> Path:
    """Return the folder of the script, its project file and its imports: the test's folder, or one made of `file`
    sections."""
    files = [s for s in scenario.steps if s.kind == "file"]
    if not files:
        return file.resolve().parent
    for step in files:
        path = (folder / "files" / step.arguments["name"]).resolve()
        if not path.is_relative_to((folder / "files").resolve()):
            raise fail(
                "B9408",
                f'"{step.arguments["name"]}" is not a path below the folder of the script',
                hint="write a relative path without ..",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(step.section.body) + "\n", encoding="utf-8")
    return folder / "files"


def _script(scenario: Scenario, file: Path) -> tuple[str, str]:
    if scenario.path is None:
        return "script.sqrl", scenario.script or ""
    path = file.parent / scenario.path
    try:
        return scenario.path, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise fail(
            "B9408", f"the script {path} cannot be read: {error}", hint="paths are relative to the test"
        ) from error


def _inside(project: ProjectSettings, folder: Path) -> ProjectSettings:
    """Return the project with sinks that write into a folder: a test never delivers.

    By default a view that fails is an error.
    """
    sinks = {
        name: sink if sink.connector == "console" else Sink(name, "files", folder / name, sink.format)
        for name, sink in project.sinks.items()
    }
    return replace(project, sinks=sinks, on_error=project.on_error or "stop")


def _first_clock(scenario: Scenario) -> str:
    return next((s.arguments["time"] for s in scenario.steps if s.kind == "clock"), FIRST_CLOCK)


@contextmanager
def _bench(world: World, project: ProjectSettings, spark: Callable[[], Any] | None, clock: str) -> Iterator[None]:
    if spark is None or not world.compiled.ok:
        yield
        return
    world.bench = Workbench.of_catalog(world.compiled.catalog, spark=spark(), sinks=project.sinks)
    try:
        world.bench.clock(clock)
        yield
    finally:
        world.bench.close()


def _take(step: Step, scenario: Scenario, world: World, outcome: Outcome) -> bool:
    """Do or check one step. Return False if the scenario cannot continue."""
    if step.expects:
        outcome.checks.append(_check(step, world))
        return True
    if step.kind == "file":
        return True
    world.errors, printed = (), io.StringIO()
    try:
        with redirect_stdout(printed):
            _do(world, step)
    except BelvedereError as error:
        world.errors = error.diagnostics
    except Exception as error:
        if os.environ.get("BELVEDERE_TRACEBACK"):
            raise
        outcome.trouble.append(
            f"--- {step.title}: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        )
        return False
    finally:
        world.console += printed.getvalue()
    steps = scenario.steps
    following = next((s for s in steps[steps.index(step) + 1 :] if not s.expects or s.kind == "error"), None)
    if world.errors and (following is None or following.kind != "error"):
        message = "\n".join(_diagnostic_text(d) for d in world.errors)
        outcome.checks.append(Expectation(step, False, message=message))
        return False
    return True


def _check(step: Step, world: World) -> Expectation:
    expected = tuple(line for line in step.section.body if not line.startswith("#"))
    try:
        observed: Observation = OBSERVE[step.kind](world, step)
    except BelvedereError as error:
        return Expectation(step, False, expected, None, "\n".join(_diagnostic_text(d) for d in error.diagnostics))
    return Expectation(step, observed.same, expected, tuple(observed.lines))


def _diagnostic_text(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.code}: {diagnostic.message}" + (f" ({diagnostic.hint})" if diagnostic.hint else "")


def _against_batch(bench: Workbench) -> list[str]:
    """Return the stored views that differ from their batch result."""
    catalog, tables, wrong = bench.catalog, bench.engine.tables, []
    filled = [id_ for id_ in catalog.views if id_ in tables.by_name and id_ not in tables.fresh | tables.unmade]
    for id_, computed in bench.batches(filled).items():
        view, stored = catalog.views[id_], bench.rows(id_)
        if not same_rows(computed, stored, view.schema.visible, ordered=False):
            rows, expected = counted(len(stored), "row"), counted(len(computed), "row")
            wrong.append(f'view "{view.name}" ({rows}) differs from its batch result ({expected})')
    return wrong


def _do(world: World, step: Step) -> None:
    """Do one step with the Workbench method of the same name."""
    bench, given = world.workbench, step.arguments
    match step.kind:
        case "insert":
            bench.insert(given["relation"], read_rows(step.section.body)[1], producer=given.get("producer"))
        case "delete":
            bench.delete(given["relation"], read_rows(step.section.body)[1])
        case "bound":
            producer, column = given.get("producer"), given.get("column")
            bench.bound(given["relation"], given["time"], producer=producer, strict="strict" in given, column=column)
        case "open":
            bench.open(given["relation"], producer=given["producer"], bound=given.get("time"))
        case "close":
            bench.close(given["relation"], producer=given["producer"])
        case "clock":
            bench.clock(datetime.fromisoformat(given["time"]))
        case "step":
            for _ in range(int(given.get("times", "1"))):
                world.console = ""
                bench.step()
        case "restart":
            bench.restart()
        case "graphql":
            world.answer = bench.graphql(step.section.text, json.loads(given.get("variables", "null")))
