"""`belvedere sources`: the contents of a project's sources, the progress of its store, and the backlog of its sinks.

In: a script, its project file, its store if it exists. Out: a row per table, partition, slot and export. A source that
does not answer also has a row. It starts no Spark, reads no messages, and contacts no sink.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from belvedere.connectors.connector import Imported, SourcePart
from belvedere.connectors.outage_backoff import is_away
from belvedere.connectors.project_file import load_project
from belvedere.connectors.registry import SourceTables
from belvedere.connectors.run_records import lengths_read
from belvedere.errors import BelvedereError, Diagnostic
from belvedere.project.settings import ProjectSettings
from belvedere.store import open_reader
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, print_json, print_table, read_script, show
from belvedere.terminal.stores import compile_over_store

if TYPE_CHECKING:
    from belvedere.catalog.catalog import Catalog
    from belvedere.connectors.exporting.exports import ExportBacklog
    from belvedere.store.protocol import Reader


@dataclass(frozen=True)
class SourceReport:
    """A source with its contents, or the reason why it cannot be read."""

    source: str
    connector: str
    parts: tuple[SourcePart, ...] = ()
    failure: Diagnostic | None = None


def command(
    script: Annotated[Path, typer.Argument(help="a script (.sqrl)", metavar="SCRIPT")],
    store: StoreOption = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
) -> int:
    """Print the contents of the sources of a project, the progress of its store, and the backlog of its sinks."""
    text, finder = read_script(script), SourceTables()
    over = compile_over_store(script, text, store, replace(load_project(script.parent), finder=finder))
    refused = [d for d in over.diagnostics if not is_away(BelvedereError((d,)))]
    if has_errors(refused):  # show the part that could be read
        show([d for d in refused if has_errors((d,))], {str(script): text}, stream=sys.stderr)
    reader = _reader(over.url, must_be=store is not None)
    try:
        imports = _imports(over.catalog, reader)
        reported = [_reported(name, over.project, finder, imports.get(name, ())) for name in over.project.sources]
        exports = _exports(over.catalog, over.project, reader)
    finally:
        if reader is not None:
            reader.close()
    if json:
        print_json(_as_json(reported, over.project, over.catalog, exports))
    else:
        _show(reported, over.project, over.catalog, exports)
    no_answer = bool(reported) and all(t.failure is not None for t in reported)
    return 1 if no_answer or has_errors(refused) else 0


def _reader(url: str, must_be: bool) -> Reader | None:
    """Return a reader of the store; None if no store was named and the default one does not exist."""
    try:
        return open_reader(url)
    except BelvedereError:
        if must_be:
            raise
        return None


def _imports(catalog: Catalog, reader: Reader | None) -> dict[str, list[Imported]]:
    """Return the script's inputs by source, with the store's progress."""
    last = None if reader is None else reader.last_epoch()
    files = {} if reader is None or last is None else _files(reader)
    found: dict[str, list[Imported]] = {}
    for id_, table in catalog.inputs.items():
        if table.source is not None:
            offset = {} if last is None else last.offsets.get(id_, {})
            read = files.get(id_, {})
            imported = Imported(table.name, table.source.table, offset, frozenset(read), read)
            found.setdefault(table.source.source, []).append(imported)
    return found


def _files(reader: Reader) -> dict[str, dict[str, int]]:
    """Return the number of bytes read per file, by input id."""
    try:
        return lengths_read(reader)
    except BelvedereError as error:
        if error.diagnostics[0].code != "B7014":  # a store that has had no sources
            raise
        return {}


def _reported(name: str, project: ProjectSettings, finder: SourceTables, imports: Sequence[Imported]) -> SourceReport:
    source = project.sources[name]
    try:
        return SourceReport(name, source.connector, finder.parts(source, imports))
    except BelvedereError as error:
        return SourceReport(name, source.connector, failure=error.diagnostics[0])


def _exports(catalog: Catalog, project: ProjectSettings, reader: Reader | None) -> dict[tuple[str, str], ExportBacklog]:
    """Return the backlog of exports by sink and target; empty if there is no store."""
    from belvedere.connectors.exporting.exports import waiting_exports  # imported when the command runs

    if reader is None:
        return {}
    known = [e for e in catalog.exports if project.sink(e.sink) is not None]
    found = waiting_exports(replace(catalog, exports=tuple(known)), project.sinks, reader)
    return {(w.export.sink, w.export.target): w for w in found}


def _exported(
    project: ProjectSettings, catalog: Catalog, exports: Mapping[tuple[str, str], ExportBacklog]
) -> Iterator[dict[str, Any]]:
    """Yield the report of each sink and export."""
    for name, sink in project.sinks.items():
        reported = [e for e in catalog.exports if e.sink.casefold() == name.casefold()]
        if not reported:
            yield {"sink": name, "connector": sink.connector}
        for export in reported:
            waiting = exports.get((export.sink, export.target))
            row = {
                "sink": name,
                "connector": sink.connector,
                "target": export.target,
                "view": catalog.name_of(export.relation),
            }
            yield row if waiting is None else row | {"sent": waiting.done, "waiting": waiting.waiting}


def _as_json(
    reported: Sequence[SourceReport],
    project: ProjectSettings,
    catalog: Catalog,
    exports: Mapping[tuple[str, str], ExportBacklog],
) -> dict[str, Any]:
    sources: list[dict[str, Any]] = []
    for source in reported:
        row: dict[str, Any] = {"source": source.source, "connector": source.connector}
        if source.failure is not None:
            row["failure"] = {
                "code": source.failure.code,
                "message": source.failure.message,
                "detail": source.failure.detail,
            }
        else:
            row["parts"] = [{k: v for k, v in asdict(p).items() if v not in ("", None, {})} for p in source.parts]
        sources.append(row)
    return {"sources": sources, "sinks": list(_exported(project, catalog, exports))}


def _show(
    reported: Sequence[SourceReport],
    project: ProjectSettings,
    catalog: Catalog,
    exports: Mapping[tuple[str, str], ExportBacklog],
) -> None:
    if not reported and not project.sinks:
        typer.echo("belvedere.toml names no sources and no sinks")
    if reported:
        print_table(_source_table(reported))
    if project.sinks:
        typer.echo("")
        print_table(_sink_table(_exported(project, catalog, exports)))


def _source_table(reported: Sequence[SourceReport]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("source", "table", "input", "has"):
        table.add_column(name, overflow="fold")
    for name in ("first", "end", "taken", "behind"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for source in reported:
        if source.failure is not None:
            table.add_row(source.source, *[""] * 7, source.failure.message)
        elif not source.parts:
            table.add_row(source.source, *[""] * 7, "has no tables")
        for part in source.parts:
            name = f"{part.table}[{part.part}]" if part.table and part.part else part.table or part.part
            behind = "" if part.behind is None else _counted(part.behind, part.unit)
            numbers = [_number(n) for n in (part.first, part.end, part.taken)]
            table.add_row(source.source, name, part.imported, _facts(part.facts), *numbers, behind, part.note)
    return table


def _sink_table(rows: Iterator[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("sink", "target", "view"):
        table.add_column(name, overflow="fold")
    for name in ("sent", "waiting"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        numbers = [_number(row.get(k)) for k in ("sent", "waiting")]
        table.add_row(row["sink"], row.get("target", ""), row.get("view", "nothing is exported to it"), *numbers)
    return table


def _facts(facts: Mapping[str, Any]) -> str:
    """Return facts as text: `3 partitions, not published, wal_status reserved`."""
    return ", ".join(_fact(name, value) for name, value in facts.items())


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return _counted(value, name) if isinstance(value, int) else f"{name} {value}"


def _counted(value: int, plural: str) -> str:
    """Return a number with its noun: `1 partition`, `2 partitions`."""
    return f"{value:,} {plural.removesuffix('s') if value == 1 else plural}"


def _number(value: int | str | None) -> str:
    return f"{value:,}" if isinstance(value, int) else value or ""
