"""A project from a folder of data files: a script that imports each of its tables, and belvedere.toml.

In: the project's directory, the folder. Out: texts by path. Columns are those that the rows tell; tables that do not tell them are
left out, and named.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from belvedere.commands.output import in_quotes
from belvedere.connectors.files import columns, tables
from belvedere.errors import BelvedereError, fail
from belvedere.functions.types import type_text
from belvedere.settings import FILE_NAME, Source

WORD = re.compile(r"[^\W\d]\w*", re.ASCII)


def project_from(directory: Path, data: Path) -> tuple[dict[Path, str], list[str]]:
    """The files of the project, the script first, and what was left out. Raises B9113 where the folder has no tables."""
    name = re.sub(r"\W+", "_", data.resolve().name, flags=re.ASCII).strip("_").lower() or "data"
    name = name if WORD.fullmatch(name) else f"data_{name}"
    source = Source(name, path=data.resolve())
    imports: list[str] = []
    skipped: list[str] = []
    for table in tables(source):
        try:
            found = columns(source, table)
        except BelvedereError as error:
            skipped.append(f"{table} is left out: {error.diagnostics[0].message}")
            continue
        told = ", ".join(f"{f.name} {type_text(f.type)}" for f in found)
        said = table if WORD.fullmatch(table) else f"`{table}`"
        view = f"{re.sub(r'[^0-9A-Za-z_]+', '_', table).strip('_') or 'Table'}Count"
        view = view if WORD.fullmatch(view) else f"T{view}"
        imports.append(f"-- {told}\nIMPORT {name}.{said};\n{view} := SELECT count(*) AS rows_so_far FROM {said};\n")
    if not imports:
        hint = "put files there as Table.json, Table.csv or Table.parquet, or as Table/..."
        raise fail("B9113", f"no file of {data} tells a table", hint=hint, detail="; ".join(skipped) or None)
    path = os.path.relpath(data.resolve(), directory.resolve()).replace("\\", "/")
    project = f'[sources.{name}]\nconnector = "files"\npath = {in_quotes(path)}\n'
    return {Path(f"{name}.sqrl"): "\n".join(imports), Path(FILE_NAME): project}, skipped
