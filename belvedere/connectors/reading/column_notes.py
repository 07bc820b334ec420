"""Notices on columns found in files: ambiguous names, files with another delimiter.

In: pairs of names, files. Out: an Arrow schema with the texts in its metadata, which
`belvedere.lang.statements.source_tables` reads.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from belvedere.connectors.reading.csv_text import said_twice
from belvedere.connectors.run_records import path_text
from belvedere.lang.statements.source_tables import NOTES


@dataclass
class ColumnNotes:
    """Notices, each once."""

    texts: dict[str, None] = field(default_factory=dict)

    def twice(self, of: str, pair: tuple[str, str]) -> None:
        """Add a notice that two names of `of` are ambiguous."""
        self.texts[f'{of} {said_twice(pair)}: a script sees only "{pair[0]}", and files with both are rejected'] = None

    def delimiter(self, file: Path, delimiter: str) -> None:
        """Add a notice that a file has another delimiter than its source."""
        name = path_text(str(file))
        self.texts[
            f"the delimiter of file {name} seems to be {delimiter!r}: the file is rejected; read it by another source"
        ] = None

    def whole_header(self, file: Path, delimiter: str) -> None:
        """Add a notice that a file has one column, whose name another delimiter would split."""
        name, said = path_text(str(file)), json.dumps(delimiter)
        self.texts[f"file {name} has one column; if {delimiter!r} separates its fields, write delimiter = {said}"] = (
            None
        )

    def on(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema with these notices."""
        return schema.with_metadata({NOTES: json.dumps(list(self.texts))}) if self.texts else schema
