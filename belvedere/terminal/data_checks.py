"""`belvedere check --data`: problems in the data of a script's sources, found in a sample of each imported table.

In: a catalog, its project. Out: for each table the number of valid rows, and findings about the others. The code of
epochs reads and checks the rows. Nothing is changed at a source, and no store is opened for writing. Spark is started
only if a row needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from belvedere.connectors.connector import Sampled
from belvedere.connectors.feeds import feed_request_of
from belvedere.connectors.registry import SourceTables
from belvedere.engine.late_rows import judge
from belvedere.engine.rows.epoch_rows import as_rows
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.terminal.data_findings import Finding, findings_of
from belvedere.terminal.output import print_table
from belvedere.time.event_time import Clocks

if TYPE_CHECKING:
    from belvedere.catalog.catalog import Catalog
    from belvedere.catalog.inputs import Input
    from belvedere.project.settings import ProjectSettings

MAX_TEXT_LENGTH = 120
NO_SAMPLE = "is not checked: its connector cannot sample rows"


@dataclass(frozen=True)
class Looked:
    """A table of a source: the number of sampled and of valid rows, or why it could not be read."""

    input: str
    source: str
    table: str
    connector: str
    rows: int = 0
    fit: int = 0
    findings: tuple[Finding, ...] = ()
    failures: tuple[Diagnostic, ...] = ()
    note: str = ""

    @property
    def failed(self) -> bool:
        """Return whether a run would end, or accept no row."""
        return bool(self.failures) or (self.rows > 0 and not self.fit)


def look_at(catalog: Catalog, project: ProjectSettings, finder: SourceTables, rows: int) -> list[Looked]:
    """Return the results of all imported tables, in the order of the script.

    An unavailable source is tried only once.
    """
    with ExitStack() as stack, _without_rows("belvedere.late"):
        spark = _starting(stack, project)
        return [
            _looked(table, catalog, project, lambda t: finder.sample(feed_request_of(t, project), rows, spark))
            for table in catalog.inputs.values()
            if table.source is not None
        ]


def _starting(stack: ExitStack, project: ProjectSettings) -> Callable[[], Any]:
    """Return a function that starts a session on the first call."""
    sessions: list[Any] = []

    def spark() -> Any:
        from belvedere.spark.jvm.quiet_session import batch_session  # loads PySpark, which takes a second

        if not sessions:
            sessions.append(stack.enter_context(batch_session(project.spark, project.driver_memory)))
        return sessions[0]

    return spark


@contextmanager
def _without_rows(name: str) -> Iterator[None]:
    """Report a table without rows; late rows are reported with the other findings."""
    log = logging.getLogger(name)
    log.disabled, before = True, log.disabled
    try:
        yield
    finally:
        log.disabled = before


def _looked(
    table: Input, catalog: Catalog, project: ProjectSettings, sample: Callable[[Input], Sampled | None]
) -> Looked:
    assert table.source is not None
    about = (table.name, table.source.source, table.source.table, table.source.connector)
    try:
        sampled = sample(table)
        if sampled is None:
            return Looked(*about, note=NO_SAMPLE)
        return _judged(about, table, catalog, sampled)
    except BelvedereError as error:
        return Looked(*about, failures=error.diagnostics)


def _judged(about: tuple[str, str, str, str], table: Input, catalog: Catalog, sampled: Sampled) -> Looked:
    """Check a sample as an epoch checks arriving rows."""
    from belvedere.spark.run.epoch_sources import conformed  # loads PySpark, which takes a second

    arrived = conformed(sampled.arrived, table)
    came = _table(arrived.rows)
    id_ = table.id
    used = judge(catalog, Clocks(), {id_: came}, datetime.now(UTC), {id_: arrived.marks}, {id_: arrived.producers}).used
    late = came.num_rows - used[id_].num_rows
    late_table = catalog.late_of(id_)
    late_rows = None if late_table is None or late_table.id not in used else _table(used[late_table.id])
    found = findings_of(table, sampled, came, late, late_rows)
    looked = came.num_rows + arrived.refused
    note = "" if looked else "has no rows yet"
    return Looked(*about, looked, came.num_rows - late, tuple(found), sampled.problems, note)


def _table(rows: Any) -> pa.Table:
    return as_rows(rows).table


def as_json(looked: Sequence[Looked]) -> list[dict[str, Any]]:
    """Return the findings as data."""
    return [_as_json(one) for one in looked]


def _as_json(looked: Looked) -> dict[str, Any]:
    found: dict[str, Any] = {
        "input": looked.input,
        "source": looked.source,
        "table": looked.table,
        "connector": looked.connector,
    }
    if looked.failures:
        found["failures"] = [
            {"code": d.code, "message": d.message, "detail": d.detail, "hint": d.hint} for d in looked.failures
        ]
    if looked.note:
        found["note"] = looked.note
    reported: list[Mapping[str, Any]] = [
        {k: v for k, v in asdict(f).items() if v not in ("", None)} for f in looked.findings
    ]
    return found | {"rows": looked.rows, "fit": looked.fit, "findings": reported}


def show_data(looked: Sequence[Looked]) -> None:
    """Print a row for each table, then the findings of each."""
    if not looked:
        typer.echo("the script imports no tables")
        return
    print_table(_summary(looked))
    for one in looked:
        if one.findings:
            typer.echo("")
            typer.echo(one.input)
            print_table(_finding_table(one.findings))


def _summary(looked: Sequence[Looked]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("input", "table"):
        table.add_column(name, overflow="fold")
    for name in ("rows", "fit", "not"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in looked:
        said = [f"{d.message} [{d.code}]{f'; {d.hint}' if d.hint else ''}" for d in one.failures]
        numbers = [f"{n:,}" for n in (one.rows, one.fit, one.rows - one.fit)] if one.rows else [""] * 3
        cells = (one.input, f"{one.source}.{one.table}", *numbers, "; ".join([*said, one.note] if one.note else said))
        table.add_row(*map(_cell, cells))
    return table


def _finding_table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("rows", justify="right", no_wrap=True)
    for name in ("what", "example", "what to do"):
        table.add_column(name, overflow="fold")
    for found in findings:
        text = found.text if len(found.text) <= MAX_TEXT_LENGTH else f"{found.text[:MAX_TEXT_LENGTH]}..."
        rows = "" if found.rows is None else f"{found.rows:,}"
        table.add_row(*map(_cell, (rows, found.shown, " ".join(filter(None, (found.where, text))), found.hint)))
    return table


def _cell(text: str) -> Text:
    """Return the text without interpretation: data of a source is no markup, and must not move the cursor."""
    return Text("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


__all__ = ["Looked", "as_json", "look_at", "show_data"]
