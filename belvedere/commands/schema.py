"""`belvedere schema`: the columns of a script's imported tables, to paste into belvedere.toml; `accept` accepts new
columns of files.

In: a script, its store. Out: the columns of the store, or else those inferred from rows; new columns of files. `accept`
records them for the next start. With `--graphql` it prints the schema of the API instead, with `--type-policies` the
key fields of its types. It starts no Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from belvedere.catalog.catalog import Catalog
from belvedere.connectors.new_columns import TableEvolution, evolution_of_sources
from belvedere.connectors.project_file import load_project
from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import type_text
from belvedere.project.settings import ProjectSettings
from belvedere.store import open_reader
from belvedere.store.source_columns import accept_columns
from belvedere.terminal.addresses import StoreOption
from belvedere.terminal.output import has_errors, in_quotes, print_json, read_script, show
from belvedere.terminal.stores import compile_over_store

ACCEPT = "accept"


def command(
    words: Annotated[
        list[str],
        typer.Argument(help="a script (.sqrl); `accept SCRIPT` accepts new columns", metavar="[accept] SCRIPT"),
    ],
    store: StoreOption = None,
    json: Annotated[bool, typer.Option("--json", help="print as JSON")] = False,
    graphql: Annotated[
        bool, typer.Option("--graphql", help="print the GraphQL schema of the script's API (SDL)")
    ] = False,
    policies: Annotated[
        bool,
        typer.Option("--type-policies", help="print the key fields of each type, for caches of Apollo and urql (JSON)"),
    ] = False,
    role: Annotated[
        str | None, typer.Option("--role", help="with --graphql and --type-policies: only the part that this role sees")
    ] = None,
) -> int:
    """Print the columns of imported tables, to paste; `schema accept SCRIPT` accepts new columns and wider types at the
    next start."""
    accepts = len(words) == 2 and words[0] == ACCEPT
    if len(words) != 1 and not accepts:
        raise typer.BadParameter("write `belvedere schema SCRIPT` or `belvedere schema accept SCRIPT`")
    if graphql and policies:
        raise typer.BadParameter("`--graphql` and `--type-policies` cannot be used together")
    if ((graphql or policies) and (accepts or json)) or (role is not None and not (graphql or policies)):
        raise typer.BadParameter("write `belvedere schema SCRIPT --graphql [--role ROLE]`, or `--type-policies`")
    script = Path(words[-1])
    text, project = read_script(script), load_project(script.parent)
    over = compile_over_store(script, text, store, project, starting=True)
    if has_errors(over.diagnostics):
        show(over.diagnostics, {str(script): text}, stream=sys.stderr)
        return 1
    if graphql or policies:
        return _print_graphql(over.catalog, over.project, role, policies)
    imported = {i: t.source for i, t in over.catalog.inputs.items() if t.source is not None}
    columns = {(s.source, s.table): s.columns for s in imported.values() if s.columns is not None}
    evolutions = _growths(
        over.project, over.url, {(s.source, s.table): i for i, s in imported.items() if s.columns is not None}
    )
    evolved = [g for g in evolutions if g.has_new_columns]
    if accepts and evolved:
        accept_columns(
            over.url, {s: {g.table: g.after for g in evolved if g.source == s} for s in {g.source for g in evolved}}
        )
    if json:
        print_json(
            {
                "tables": [_as_json(s, t, c) for (s, t), c in columns.items()],
                "new": [_reported(g) for g in evolved],
                "accepted": accepts,
            }
        )
        return 0
    if not accepts:
        for (source, table), found in columns.items():
            typer.echo(f"[sources.{source}.tables.{table}]\ncolumns = {{ {', '.join(_pasted(found))} }}\n")
    for evolution in evolutions:
        for line in (*evolution.changes, *evolution.stays):
            typer.echo(f"{evolution.source}.{evolution.table}: {line}", err=not accepts)
    if accepts:
        typer.echo("used from the next start on" if evolved else "there is nothing new to accept")
    elif evolved:
        typer.echo(f"not accepted yet: `belvedere schema accept {script}`", err=True)
    return 0


def _print_graphql(catalog: Catalog, project: ProjectSettings, role: str | None, policies: bool) -> int:
    from belvedere.api.graphql.schema_text import (  # imported when the command runs, not for its help
        printed_policies,
        printed_schema,
    )

    if role is not None and role not in catalog.access.grants:
        raise typer.BadParameter(
            f"[roles] in belvedere.toml has no role `{role}`: {', '.join(catalog.access.grants) or 'there are none'}"
        )
    typer.echo((printed_policies if policies else printed_schema)(catalog, project, role))
    return 0


def _growths(project: ProjectSettings, url: str, ids: Mapping[tuple[str, str], str]) -> list[TableEvolution]:
    """Return the new columns; none if there is no store yet."""
    try:
        reader = open_reader(url)
    except BelvedereError:
        return []
    try:
        return evolution_of_sources(project, reader, ids)
    finally:
        reader.close()


def _reported(evolution: TableEvolution) -> dict[str, Any]:
    return {
        "source": evolution.source,
        "table": evolution.table,
        "changes": list(evolution.changes),
        "stays": list(evolution.stays),
    }


def _as_json(source: str, table: str, schema: pa.Schema) -> dict[str, Any]:
    return {"source": source, "table": table, "columns": {f.name: type_text(f.type) for f in schema}}


def _pasted(schema: pa.Schema) -> list[str]:
    """Return columns in the form of belvedere.toml; names that are not plain keys are quoted."""
    names = (
        f.name if f.name.isascii() and f.name.replace("_", "a").replace("-", "a").isalnum() else in_quotes(f.name)
        for f in schema
    )
    return [f"{n} = {in_quotes(type_text(f.type))}" for n, f in zip(names, schema, strict=True)]
