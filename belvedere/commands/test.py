"""`belvedere test`: run golden `.test` files.

In: files, or folders that are searched for `*.test`. Out: a line per file and a difference per failure, or JSON, and
JUnit XML; with `--update` the files with new expectations. All files share one Spark session, which starts on demand.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from belvedere.errors import Diagnostic, counted
from belvedere.scenarios import Outcome, Scenario, read_scenarios, run_scenario, updated
from belvedere.scenarios.differences import TABLES, marked
from belvedere.scenarios.junit import junit_errors, junit_text
from belvedere.scenarios.play import Expectation
from belvedere.spark.jvm.quiet_session import short_session
from belvedere.terminal.output import coloured, diagnostics_json, print_json, read_script, show
from belvedere.terminal.progress_line import UnderWay


def command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="tests (.test) or folders of tests; default: this folder", metavar="[FILE|DIR]"),
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="replace failed expectations by the actual results")] = False,
    only: Annotated[
        str | None, typer.Option("--only", help="only scenarios whose title contains this", metavar="TEXT")
    ] = None,
    batch: Annotated[
        bool, typer.Option("--batch", help="also compare every view with its batch result at the end")
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="also write the results as JUnit XML", metavar="FILE", dir_okay=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="print the results as JSON")] = False,
) -> int:
    """Run golden tests: scripts, steps, and expected results."""
    texts = {path: read_script(path) for path in find_tests(paths or [Path()])}
    read = {path: read_scenarios(text, str(path)) for path, text in texts.items()}
    malformed = [d for _, found in read.values() for d in found]
    if malformed:
        write_junit(junit, junit_errors(malformed))
        return refuse(malformed, {str(p): t for p, t in texts.items()}, json=json)
    requested = {
        path: [s for s in found if only is None or only.casefold() in s.title.casefold()]
        for path, (found, _) in read.items()
    }
    results: dict[Path, list[Outcome]] = {}
    with UnderWay(quiet=json) as way, shared_session(way) as session:
        run = TestRun(way, session, sum(map(len, requested.values())), batch=batch, quiet=json, update=update)
        for path, scenarios in requested.items():
            if scenarios:
                results[path] = run_file(path, scenarios, run)
                if update:
                    write_update(path, texts[path], results[path])
    write_junit(junit, junit_text(results, failure_text))
    if json:
        print_json(as_json(results))
    else:
        typer.echo(totals(results, update=update))
    return 0 if all(o.ok or (update and fixable(o)) for found in results.values() for o in found) else 1


def find_tests(paths: list[Path]) -> list[Path]:
    """Return the given files and those in the given folders, without duplicates. Raises BadParameter if there are
    none."""
    found: dict[Path, None] = {}
    for path in paths:
        inside = [
            p for p in path.rglob("*.test") if not any(part.startswith(".") for part in p.relative_to(path).parts)
        ]
        found |= dict.fromkeys(sorted(inside) if path.is_dir() else [path])
    if not found:
        raise typer.BadParameter(f"there is no .test file in {', '.join(f'`{p}`' for p in paths)}")
    return list(found)


def refuse(malformed: list[Diagnostic], texts: dict[str, str], *, json: bool) -> int:
    """Report the errors of test files, without running a test."""
    if json:
        print_json({"ok": False, "diagnostics": diagnostics_json(malformed, texts), "files": []})
    else:
        show(malformed, texts, stream=sys.stderr)
    return 1


def write_junit(file: Path | None, text: str) -> None:
    """Write JUnit XML if a file is given. Raises BadParameter if it cannot be written."""
    if file is None:
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"`{file}` cannot be written: {error.strerror}", param_hint="--junit") from error


@contextmanager
def shared_session(way: UnderWay) -> Iterator[Callable[[], Any]]:
    """Yield a function that returns the Spark session of all tests, which starts at its first call."""
    with ExitStack() as stack:

        @cache
        def session() -> Any:
            return stack.enter_context(short_session(way.say))

        yield session


@dataclass
class TestRun:
    """Shared state of a test run: `scenarios` is the number of all scenarios, `done` has the finished ones."""

    way: UnderWay
    session: Callable[[], Any]
    scenarios: int
    batch: bool = False
    quiet: bool = False
    update: bool = False
    done: int = 0


def run_file(path: Path, scenarios: list[Scenario], run: TestRun) -> list[Outcome]:
    """Run the scenarios of one file and print the results.

    With `update` it prints only failures that cannot be updated in full.
    """
    outcomes = []
    for scenario in scenarios:
        run.way.say(f"{path}: {run.done + 1} of {run.scenarios}, {scenario.title}", run.done, run.scenarios)
        outcomes.append(run_scenario(scenario, path, run.session, batch=run.batch))
        run.done += 1
    if not run.quiet:
        with run.way.aside():
            typer.echo(f"{path}: {verdicts(outcomes, update=run.update)} ({sum(o.seconds for o in outcomes):.1f} s)")
            for outcome in outcomes:
                if not outcome.ok and not (run.update and fixable(outcome)):
                    typer.echo(failure_text(path, outcome))
    return outcomes


def verdicts(outcomes: list[Outcome], *, update: bool) -> str:
    """Return how many scenarios passed, failed, and were updated, as text."""
    written = sum(not o.ok and fixable(o) for o in outcomes) if update else 0
    failed = sum(not o.ok for o in outcomes) - written
    said = [f"{failed} of {len(outcomes)} failed"] if failed else []
    said += [f"{written} of {len(outcomes)} updated"] if written else []
    return ", ".join(said) or f"{len(outcomes)} passed"


def failure_text(path: Path, outcome: Outcome) -> str:
    """Return the failures of a scenario, each with its position."""
    parts = [f"\n  {outcome.scenario.title}"]
    parts += [f"  {path}:{outcome.scenario.line}: {text}" for text in outcome.trouble]
    for check in outcome.checks:
        if not check.ok:
            parts.append(f"  {path}:{check.step.section.line}: {check.step.title}")
            parts += [f"    {line}" for line in difference(check)]
    return "\n".join(parts) + "\n"


def difference(check: Expectation) -> list[str]:
    """Return the lines of a difference: `-` expected, `+` actual; for a table `^` marks the cells that differ."""
    if check.actual is None:
        return check.message.split("\n")
    table = _as_table(check)
    if table is not None:
        return _coloured(table)
    found = difflib.ndiff([line.rstrip() for line in check.expected if line.strip()], list(check.actual))
    lines = [line for line in found if not line.startswith("?")] or ["(nothing was expected, and there is nothing)"]
    return _coloured(lines)


def _as_table(check: Expectation) -> list[str] | None:
    step = check.step
    if step.kind not in TABLES or check.actual is None:
        return None
    return marked(check.expected, check.actual, ordered=step.kind == "events" or "ordered" in step.arguments)


def _coloured(lines: list[str]) -> list[str]:
    colours = {"-": "red", "+": "green"} if coloured(sys.stdout) else {}
    return [typer.style(line, fg=colours[line[0]]) if line[0] in colours else line for line in lines]


def fixable(outcome: Outcome) -> bool:
    """Return whether every failure can be written to the file as the new expectation."""
    return not outcome.trouble and all(c.ok or c.actual is not None for c in outcome.checks)


def write_update(path: Path, text: str, outcomes: list[Outcome]) -> None:
    """Rewrite the file if an expectation was not met."""
    new = updated(text, [c for o in outcomes for c in o.checks])
    if new != text:
        path.write_text(new, encoding="utf-8")


def totals(results: dict[Path, list[Outcome]], *, update: bool) -> str:
    """Return a line about all files."""
    outcomes = [o for found in results.values() for o in found]
    scenarios = counted(len(outcomes), "scenario")
    files = counted(len(results), "file")
    return (
        f"{scenarios} in {files}: {'all passed' if all(o.ok for o in outcomes) else verdicts(outcomes, update=update)}"
    )


def as_json(results: dict[Path, list[Outcome]]) -> dict[str, Any]:
    """Return the results as plain values."""
    files = [{"file": str(path), "scenarios": [_scenario_json(o) for o in found]} for path, found in results.items()]
    return {"ok": all(o.ok for found in results.values() for o in found), "files": files}


def _scenario_json(outcome: Outcome) -> dict[str, Any]:
    failures: list[dict[str, Any]] = [{"line": outcome.scenario.line, "message": text} for text in outcome.trouble]
    for check in outcome.checks:
        if not check.ok:
            actual = None if check.actual is None else list(check.actual)
            failures.append(
                {
                    "line": check.step.section.line,
                    "step": check.step.title,
                    "message": check.message,
                    "expected": list(check.expected),
                    "actual": actual,
                }
            )
    scenario = outcome.scenario
    seconds = round(outcome.seconds, 3)
    return {"title": scenario.title, "line": scenario.line, "ok": outcome.ok, "seconds": seconds, "failures": failures}
