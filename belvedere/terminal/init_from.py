"""Projects for existing data: a script that imports each table of a folder, a cluster or a database, and
belvedere.toml.

In: the project's directory, a folder or an address. Out: texts by path, and notices. Columns are inferred from the
rows, the messages or the database; tables without columns are skipped and named. No file contains a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from belvedere.connectors.files import columns, tables
from belvedere.errors import BelvedereError, fail
from belvedere.functions.spark_types import type_text
from belvedere.project.settings import FILE_NAME, Source
from belvedere.terminal.output import in_quotes

WORD = re.compile(r"[^\W\d]\w*", re.ASCII)


@dataclass(frozen=True)
class NewProject:
    """Result of `init`: files, the script first; skipped tables; steps before the first run."""

    contents: dict[Path, str]
    left_out: tuple[str, ...] = ()
    to_do: tuple[str, ...] = ()


@dataclass
class Imports:
    """The script: imports with a first view of each, under distinct names."""

    statements: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def add(self, source: str, table: str, found: pa.Schema) -> None:
        """Add an import of a table, and a view that counts its rows."""
        reported = ", ".join(f"{f.name} {type_text(f.type)}" for f in found)
        said = in_words(table)
        name = table if table.casefold() not in self.names else self.free(f"{source}_{table}")
        alias = "" if name == table else f" AS {name}"
        self.names.add(name.casefold())
        view = f"{re.sub(r'[^0-9A-Za-z_]+', '_', name).strip('_') or 'Table'}Count"
        view = self.free(view if WORD.fullmatch(view) else f"T{view}")
        self.names.add(view.casefold())
        statement = f"IMPORT {source}.{said}{alias};\n{view} := SELECT count(*) AS rows_so_far FROM {in_words(name)};\n"
        self.statements.append(f"-- {reported}\n{statement}")

    def free(self, name: str) -> str:
        """Return the name, with a number appended if it is taken."""
        found, number = name, 1
        while found.casefold() in self.names:
            number += 1
            found = f"{name}{number}"
        return found


def project_from(directory: Path, data: Path) -> NewProject:
    """Return the project over a folder. Raises B9113 if the folder has no tables."""
    name = source_name(data.resolve().name, "data")
    source = Source(name, path=data.resolve())
    imports, skipped = Imports(), list[str]()
    for table in tables(source):
        try:
            imports.add(name, table, columns(source, table))
        except BelvedereError as error:
            skipped.append(left_out(table, error))
    if not imports.statements:
        hint = "add files as Table.json, Table.csv or Table.parquet, or as Table/..."
        raise no_tables(f"no file of {data} can become a table", hint, skipped)
    path = os.path.relpath(data.resolve(), directory.resolve()).replace("\\", "/")
    project = f'[sources.{name}]\nconnector = "files"\npath = {in_quotes(path)}\n'
    return NewProject({Path(f"{name}.sqrl"): "\n".join(imports.statements), Path(FILE_NAME): project}, tuple(skipped))


def left_out(table: str, error: BelvedereError) -> str:
    """Return why a table is not imported."""
    return f"{table} is skipped: {error.diagnostics[0].message}"


def no_tables(message: str, hint: str, skipped: Iterable[str]) -> BelvedereError:
    """Return the diagnostic B9113."""
    return fail("B9113", message, hint=hint, detail="; ".join(skipped) or None)


def in_words(name: str) -> str:
    """Return a name in the form that a script uses."""
    return name if WORD.fullmatch(name) else f"`{name}`"


def source_name(text: str, kind: str) -> str:
    """Derive the name of a source from another name."""
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower() or kind
    return name if WORD.fullmatch(name) else f"{kind}_{name}"
