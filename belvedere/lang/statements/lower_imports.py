"""IMPORT: tables of sources and views of other scripts.

In: import statements, the project's sources, scripts beside this one. Out: inputs, or the other script's relations, in
the definitions. Another script is compiled once; an import cycle is rejected and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.inputs import SourceTable
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.functions.spark_types import type_text
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.statements.flink_options import declared_source
from belvedere.lang.statements.imported_scripts import bring_in
from belvedere.lang.statements.lower_inputs import define_imported
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.lang.statements.source_tables import source_table, table_names
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.project.settings import ProjectSettings, Source, TableFinder, read_file
from belvedere.spark_sql.dialect import SparkSql
from belvedere.syntax.parse import parse_script
from belvedere.syntax.statement_tree import (
    CheckClause,
    ColumnDefinition,
    CreateInput,
    DottedName,
    ImportAll,
    ImportTable,
    Part,
)
from belvedere.syntax.wording import did_you_mean, nearest_name

SUFFIX = ".sqrl"
LIKE_SUFFIXES = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".avsc")
Ask = Callable[[Callable[[], Any]], Any]
"""Function that sends a question to sources or files, and returns the answer."""


def answered(question: Callable[[], Any]) -> Any:
    """Return the answer without recording it."""
    return question()


@dataclass(frozen=True)
class TableQuestions:
    """Tables of sources; each question is sent through `ask`."""

    finder: TableFinder
    ask: Ask

    def tables(self, source: Source) -> Sequence[str]:
        """Return the tables of a source."""
        found: Sequence[str] = self.ask(lambda: self.finder.tables(source))
        return found

    def columns(self, source: Source, table: str) -> pa.Schema:
        """Return the columns of a table."""
        return self.ask(lambda: self.finder.columns(source, table))

    def file_columns(self, file: Path) -> pa.Schema:
        """Return the columns of a file."""
        return self.ask(lambda: self.finder.file_columns(file))


@dataclass
class Importer:
    """Resolves the imports of one script, which is at `path`; `chain` are the scripts that import it."""

    into: ScriptLowering
    path: Path | None
    project: ProjectSettings | None
    chain: tuple[Path, ...]
    lower: Callable[..., ScriptLowering]
    scripts: dict[Path, Definitions]
    """Compiled scripts, shared by all that import each other."""
    ask: Ask
    missing: set[str] = field(default_factory=set)
    """Origins already reported as missing: one report is enough."""

    def import_table(self, statement: ImportTable) -> None:
        """Resolve `IMPORT origin.Table [AS Name]`. `IMPORT script AS Name`, also of a script in a folder, gives all its
        views as `Name.View`."""
        origin, table = self._said(statement.origin), self._said(DottedName((statement.table,)))
        whole = f"{origin}.{table}".removeprefix(".")
        if self._source(origin) is None and self._script(origin) is None and self._is_origin(whole):
            if statement.alias is None:
                advice = f"write `IMPORT {whole}.*`, or `IMPORT {whole} AS name` for `name.View`"
                raise fail(
                    "B1016", f"IMPORT `{whole}` names a script, but no view of it", span=statement.span, hint=advice
                )
            self._all_of(whole, statement, statement.alias)
            return
        name = statement.alias.text if statement.alias is not None else table
        source = self._source(origin)
        if source is not None:
            self._from_source(source, table, None if statement.alias is None else name, statement)
            return
        script, found = self._other_script(origin or table, statement)
        relation, template = found.find(table), _template(found, table)
        if template is not None and not template.name.startswith("_"):
            if relation is not None:
                self._take(found, [relation], script, {relation.name.casefold(): name})
            self._take_template(found, template, script, name, statement.table.span)
            return
        if relation is None or relation.name.startswith("_"):
            views = [r.name for r in _public(found) if not r.name.startswith("LATE(")]
            hint = did_you_mean(table, [*views, *found.templates])
            private = " is private" if relation is not None else " is not defined"
            message = f"view `{table}` of script `{script.name}`{private}"
            raise fail("B2009", message, span=statement.table.span, hint=hint)
        self._take(found, [relation], script, {relation.name.casefold(): name})

    def import_all(self, statement: ImportAll) -> None:
        """Resolve `IMPORT origin.* [AS Name]`; a notice (B6108) names the imported relations."""
        origin = self._said(statement.origin)
        brought = self._all_of(origin, statement, statement.alias)
        if brought:
            listed = ", ".join(f"`{n}`" for n in brought)
            self.into.diagnostics.append(
                Diagnostic("B6108", f"`{origin}` imports {listed}", Severity.NOTICE, statement.span)
            )

    def _all_of(self, origin: str, statement: ImportTable | ImportAll, alias: Part | None) -> list[str]:
        """Import all tables of a source, or all public views of a script, into a namespace if there is an alias; return
        their names."""
        under = self._namespace(alias) if alias is not None else ""
        source = self._source(origin)
        if source is not None:
            tables = table_names(source, self._finder)
            if not tables:
                message = f"source `{source.name}` has no tables"
                self.into.diagnostics.append(Diagnostic("B6106", message, Severity.WARNING, statement.span))
            for name in tables:
                self._from_source(source, name, under + name, statement)
            return [under + n for n in tables]
        script, found = self._other_script(origin, statement)
        requested = [r for r in _public(found) if r.parent is None]
        names = {r.name.casefold(): _within(under, r.name) for r in requested}
        self._take(found, requested, script, names)
        brought = [n for n in names.values() if not n.startswith("LATE(")]
        for template in found.templates.values():
            if template.name.startswith("_") or under.startswith("_") or template.span is None:
                continue
            name = f"{under[:-1]}_{template.name}" if under else template.name
            self._take_template(found, template, script, name, statement.span)
            brought += [] if name in brought else [name]
        return brought

    def _take_template(self, other: Definitions, template: QueryTemplate, script: Path, name: str, span: Span) -> None:
        """Import a query template of another script, with the relations that it reads."""
        known = self.into.templates.get(name)
        if known is not None:
            if (known.sql, known.span) != (template.sql, template.span):
                raise fail(
                    "B2008",
                    f"query template `{name}` is defined twice",
                    span=span,
                    hint="import one of them AS another name",
                )
            return
        read = dict.fromkeys(n.relation for n in template.plan.walk() if isinstance(n, Scan))
        ids = bring_in(self.into.definitions, other, [other.relations[i] for i in read], script, {})
        plan = replace_scans(template.plan, lambda scan: replace(scan, relation=ids[scan.relation]))
        self.into.templates[name] = replace(template, name=name, plan=plan)
        if template.events:
            self.into.no_query.add(name.casefold())

    def _namespace(self, alias: Part) -> str:
        """Return the prefix of names in a namespace."""
        definitions = self.into.definitions
        if definitions.find(alias.text) is not None:
            message = f"`{alias.text}` is a table, so it cannot be the namespace of an import"
            raise fail("B2013", message, span=alias.span, hint="give one of them another name")
        return f"{definitions.namespaces.setdefault(alias.text.casefold(), alias.text)}."

    def _said(self, path: DottedName) -> str:
        """Return a path with the project file's variables replaced. Raises B6109 for an undefined variable."""
        return ".".join(self._variable(p) if p.text.startswith("{{") else p.text for p in path.parts)

    def _variable(self, part: Part) -> str:
        known = self.project.variables if self.project is not None else {}
        name = part.text.strip("{}")
        if name not in known:
            hint = did_you_mean(name, known) or f'write `{name} = "..."` under [variables] in belvedere.toml'
            raise fail("B6109", f"variable `{name}` is not defined", span=part.span, hint=hint)
        return known[name]

    def _is_origin(self, name: str) -> bool:
        return self._source(name) is not None or self._script(name) is not None

    def with_file_columns(self, statement: CreateInput) -> CreateInput:
        """Return `CREATE TABLE T (...) LIKE 'file'` with the columns of the file before its own. Raises B6118 if they
        cannot be read."""
        if statement.like is None:
            return statement
        if self.project is None or self.project.finder is None:
            hint = "save the script as a file: paths begin at its folder"
            raise fail("B6118", "LIKE needs the folder of the script", span=statement.like.span, hint=hint)
        folder = self.path.parent if self.path is not None else self.project.directory
        file, place = folder / statement.like.text, statement.like.span
        if file.suffix.casefold() not in LIKE_SUFFIXES:
            hint = (
                "name a file of JSON lines (.jsonl, .json), CSV (.csv), Parquet (.parquet), or an Avro schema (.avsc)"
            )
            raise fail("B6118", f"LIKE cannot read columns of `{statement.like.text}`", span=place, hint=hint)
        if not self.ask(file.is_file):
            hint = f"put it at {file}, or correct the path: it begins at the folder of the script"
            raise fail("B6118", f"there is no file `{statement.like.text}`", span=place, hint=hint)
        try:
            found = self._finder.file_columns(file)
        except BelvedereError as error:
            raise BelvedereError([replace(d, span=d.span or place) for d in error.diagnostics]) from error
        own = {
            name.text.casefold()
            for name in (*(c.name for c in statement.columns), *(c.name for c in statement.computed))
        }
        columns = (_like_column(f, place) for f in found if f.name.casefold() not in own)
        return replace(statement, columns=(*columns, *statement.columns))

    def declared_table(self, statement: CreateInput) -> SourceTable | None:
        """Return the table of a source that an input's WITH describes; None without WITH, or if clients push
        its rows."""
        if not statement.options:
            return None
        folder = (
            self.path.parent
            if self.path is not None
            else self.project.directory
            if self.project is not None
            else Path()
        )
        found = declared_source(statement.name, statement.options, folder.resolve())
        self.into.diagnostics += found.diagnostics
        if found.source is None:
            return None
        parts: list[ColumnDefinition | CheckClause] = [*statement.columns, *statement.checks]
        filled = next(((p, f) for p in parts if (f := _filled(p)) is not None), None)
        if filled is not None:
            part, (clause, hint) = filled
            message = f"{clause} is for rows that clients push, and WITH names another source"
            raise fail("B6117", message, span=part.span, hint=hint)
        source = found.source
        return SourceTable(source.name, found.table, source.connector, dict(source.options), None, source)

    # -- sources ------------------------------------------------------------------------------------------------------

    @property
    def _finder(self) -> TableFinder:
        if self.project is None or self.project.finder is None:
            raise AssertionError("the project has sources, but the compiler got nothing to find their tables")
        return TableQuestions(self.project.finder, self.ask)

    def _source(self, name: str) -> Source | None:
        return self.project.source(name) if self.project is not None else None

    def _from_source(self, source: Source, table: str, name: str | None, statement: ImportTable | ImportAll) -> None:
        """Import a table of a source, under a given name or its own."""
        found = source_table(source, table, self._finder, span=statement.span)
        self.into.diagnostics += (Diagnostic("B6111", n, Severity.WARNING, statement.span) for n in found.notes)
        columns = found.schema.remove_metadata() if found.is_found else None
        origin = SourceTable(source.name, found.name, source.connector, dict(source.options), columns)
        define_imported(
            self.into.definitions, found.name if name is None else name, found, origin, statement, self.into.file
        )

    def _dotted(self, name: str, statement: ImportTable | ImportAll, span: Span) -> BelvedereError | None:
        """Return the error for a source's table whose name has dots: without backticks they separate names."""
        source, _, rest = name.partition(".")
        if not rest or not isinstance(statement, ImportTable) or self._source(source) is None:
            return None
        hint = f"write `IMPORT {source}.` and the name in backticks: `{rest}.{statement.table.text}`"
        return fail("B6100", f"`{name}` is neither a configured source nor a script", span=span, hint=hint)

    def _no_origin(self, name: str, span: Span) -> BelvedereError:
        if name.casefold() in self.missing:
            return BelvedereError(())
        self.missing.add(name.casefold())
        sources = list(self.project.sources) if self.project is not None else []
        scripts = [p.stem for d in self._directories() for p in sorted(d.glob(f"*{SUFFIX}")) if p != self.path]
        hint = did_you_mean(name, [*sources, *scripts])
        if nearest_name(name, dict.fromkeys([*sources, *scripts])) is None:
            hint = f"add [sources.{name}] to belvedere.toml, or put {name}{SUFFIX} beside this script"
        return fail("B6100", f"`{name}` is neither a configured source nor a script", span=span, hint=hint)

    # -- other scripts ------------------------------------------------------------------------------------------------

    def _directories(self) -> list[Path]:
        found = (
            [self.path.parent]
            if self.path is not None
            else [self.project.directory]
            if self.project is not None
            else []
        )
        return [*found, *(self.project.script_path if self.project is not None else ())]

    def _other_script(self, name: str, statement: ImportTable | ImportAll) -> tuple[Path, Definitions]:
        """Return the script that an import names, and its definitions."""
        at = statement.origin.span if statement.origin.parts else statement.span
        script = self._script(name)
        if script is None:
            raise self._dotted(name, statement, at) or self._no_origin(name, at)
        clauses = statement.clauses
        if clauses.watermarks or clauses.late is not None or clauses.keep is not None:
            message = "WATERMARK, LATE and KEEP are only allowed in the IMPORT of a source's table"
            raise fail("B6107", message, span=statement.span, hint="write them in that IMPORT")
        return script, self._compiled(script, at)

    def _script(self, name: str) -> Path | None:
        found: Path | None = self.ask(lambda: self._file_of(name))
        return found

    def _file_of(self, name: str) -> Path | None:
        relative = Path(*name.split(".")).with_suffix(SUFFIX) if name else Path()
        for directory in self._directories():
            candidate = directory / relative
            if candidate.is_file():
                return candidate.resolve()
            folded = next((p for p in directory.glob(f"*{SUFFIX}") if p.stem.casefold() == name.casefold()), None)
            if folded is not None:
                return folded.resolve()
        return None

    def _compiled(self, script: Path, span: Span) -> Definitions:
        if script in self.scripts:
            return self.scripts[script]
        chain = (*self.chain, self.path) if self.path is not None else self.chain
        if script in chain:
            circle = " -> ".join(p.name for p in (*chain[chain.index(script) :], script))
            message = f"the scripts import each other in a circle: {circle}"
            raise fail("B2010", message, span=span, hint="move the shared definitions to a third script")
        variables = self.project.variables if self.project is not None else {}
        parsed = parse_script(self._text(script, span), str(script), variables=variables)
        lowering = self.lower(parsed, script, self.project, chain, self.scripts, ask=self.ask)
        diagnostics = [*parsed.diagnostics, *lowering.diagnostics]
        self.into.diagnostics += diagnostics
        if any(d.severity is Severity.ERROR for d in diagnostics):
            raise fail("B2011", f"script `{script.name}` has errors", span=span)
        lowering.definitions.templates = {n: t for n, t in lowering.templates.items() if t.is_named}
        self.scripts[script] = lowering.definitions
        return self.scripts[script]

    def _text(self, script: Path, span: Span) -> str:
        """Return the text of another script. Raises B2014 if its file cannot be read."""
        read = self.project.read_script if self.project is not None else read_file
        try:
            return str(self.ask(lambda: read(script)))
        except (OSError, UnicodeDecodeError) as error:
            why = "its bytes are not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
            hint = "save it as UTF-8, and give this user the right to read it"
            raise fail("B2014", f"script `{script.name}` cannot be read: {why}", span=span, hint=hint) from error

    def _take(self, other: Definitions, requested: list[NamedRelation], script: Path, names: dict[str, str]) -> None:
        """Import relations of another script: `names` gives the name of each here, by its folded name there."""
        shown = {r.name.casefold(): names.get(r.name.casefold(), r.name) for r in requested}
        bring_in(self.into.definitions, other, requested, script, shown)


def _filled(part: ColumnDefinition | CheckClause) -> tuple[str, str] | None:
    """Return the clause that fills or tests pushed rows, and what a source has instead; None without such a clause."""
    if isinstance(part, CheckClause):
        return "CHECK", "remove it, and write the condition as WHERE of a view over the input"
    if part.metadata is not None:
        here = "`_ingest_time` is the time of arrival and `_uid` the order of arrival of each row"
        return "METADATA", f"remove `{part.name.text}`: {here}"
    if part.default is not None:
        name, value = part.name.text, part.default.sql(SparkSql)
        return "DEFAULT", f"remove it, and write `coalesce({name}, {value}) AS {name}` in a view over the input"
    return None


def _like_column(field: pa.Field, place: Span) -> ColumnDefinition:
    """Return a column as a script would declare it."""
    type_ = exp.DataType.build(type_text(field.type), dialect="spark")
    return ColumnDefinition(name=Part(field.name, place), type=type_, nullable=field.nullable, span=place)


def _template(other: Definitions, name: str) -> QueryTemplate | None:
    """Return the query template of that name, ignoring case."""
    return next((t for n, t in other.templates.items() if n.casefold() == name.casefold()), None)


def _public(other: Definitions) -> list[NamedRelation]:
    """Return the public relations of another script."""
    return [r for r in other if not r.name.startswith("_") and "~" not in r.name]


def _within(namespace: str, name: str) -> str:
    """Return a name, or `LATE(name)`, in a namespace."""
    return f"LATE({namespace}{name[5:]}" if name.startswith("LATE(") else namespace + name
