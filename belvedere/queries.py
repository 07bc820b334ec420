"""One query by itself, over tables of which the columns are known: compiled as the only statement of a script that declares them.

In: SQL and columns, or DataFrames. Out: a catalog with the query as its one template, or a DataFrame. Raises diagnostics with places in
the text of the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from belvedere.catalog import Catalog, QueryTemplate
from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.functions.types import quote, type_text
from belvedere.lang.spl.mentions import mentions_spl_window
from belvedere.schema import TIMESTAMP, Column
from belvedere.settings import ProjectSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUERY_FILE = "<query>"


def sql(spark: SparkSession, text: str, **tables: DataFrame) -> DataFrame:
    """One query over DataFrames by name: of SQL++ with WINDOW BY, of SQL with windows of SPL, or of Spark SQL.

    Rows enter windows of SPL in the order of the DataFrame. Raises `BelvedereError` where a query with windows is wrong.
    """
    from belvedere.lang.window_by.parser import mentions_window_by
    from belvedere.spark.window_by.run import sql as run

    if mentions_window_by(text) or not mentions_spl_window(text):
        return run(spark, text, **tables)
    from belvedere.spark.query_files import answer_template

    rows = {name: frame.toArrow() for name, frame in tables.items()}
    columns = {name: [Column(f.name, f.type) for f in table.schema] for name, table in rows.items()}
    catalog, template = compile_query(text, columns)
    answer = answer_template(spark, catalog, template, {i: rows[t.name] for i, t in catalog.inputs.items() if t.name in rows})
    return spark.createDataFrame(answer)


def compile_query(
    sql: str, columns: Mapping[str, Sequence[Column]], views: str = "", project: ProjectSettings | None = None
) -> tuple[Catalog, QueryTemplate]:
    """The catalog of the tables and the query as its one template; `views` are definitions over the tables.

    Of the project the functions count alone.
    """
    functions = project and ProjectSettings(project.directory, module=project.module, module_place=project.module_place)
    declare = _arriving if mentions_spl_window(sql) else _declaration
    declared = "".join(declare(name, cs) for name, cs in columns.items()) + views
    text = declared + sql.strip().rstrip(";")
    compiled = compile_script(text, path=None, project=functions)
    lead = len(sql) - len(sql.lstrip())
    errors = [_moved(d, len(declared) - lead) for d in compiled.diagnostics if d.severity is Severity.ERROR]
    if errors:
        raise BelvedereError(errors)
    templates = list(compiled.catalog.templates.values())
    if len(templates) != 1:
        found = "no query" if not templates else f"{len(templates)} queries"
        raise fail("B9120", f"one query is needed, found {found}", hint='write "SELECT ... FROM name", and --table name=path')
    if templates[0].parameters:
        name = templates[0].parameters[0].name
        raise fail("B9121", f"the query has a parameter `{name}`", hint="write its value instead")
    return compiled.catalog, templates[0]


def _declaration(name: str, columns: Sequence[Column]) -> str:
    listed = ", ".join(f"{quote(c.name)} {type_text(c.type)}" for c in columns)
    return f"CREATE TABLE {quote(name)} ({listed});\n"


def _arriving(name: str, columns: Sequence[Column]) -> str:
    """The rows of a file in their order, as a stream whose event time is its first timestamp."""
    listed = [f"{quote(c.name)} {type_text(c.type)}" for c in columns]
    time = next((c.name for c in columns if c.type == TIMESTAMP), None)
    listed += [] if time is None else [f"WATERMARK FOR {quote(time)}"]
    return f"CREATE STREAM {quote(name)} ({', '.join(listed)});\n"


def _moved(diagnostic: Diagnostic, by: int) -> Diagnostic:
    """The diagnostic with its places in the query alone."""

    def moved(span: Span) -> Span:
        if span.file != "script.sqrl":  # a place in the module of functions
            return span
        return Span(QUERY_FILE, max(0, span.start - by), max(0, span.end - by))

    labels = tuple(replace(label, span=moved(label.span)) for label in diagnostic.labels if label.span.start >= by)
    fix = replace(diagnostic.fix, span=moved(diagnostic.fix.span)) if diagnostic.fix else None
    return replace(diagnostic, span=moved(diagnostic.span) if diagnostic.span else None, labels=labels, fix=fix)
