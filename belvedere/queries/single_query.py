"""A single query over tables with known columns, compiled as the only statement of a script that declares them.

In: SQL and columns, or DataFrames. Out: a catalog with the query as its only template, or a DataFrame. Raises
diagnostics with positions in the text of the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.templates import QueryTemplate
from belvedere.compiler import compile_script
from belvedere.connectors.into_spark import into_spark
from belvedere.errors import BelvedereError, Diagnostic, Severity, in_other_text
from belvedere.functions.spark_types import quote, type_text
from belvedere.plan.operators.nodes import Scan
from belvedere.plan.rewrites.rewrite import inline
from belvedere.project.settings import ProjectSettings
from belvedere.queries.store_queries import QUERY_FILE, one_template
from belvedere.schema import OWN_TABLES, TIMESTAMP, Column
from belvedere.sqlpp.parser import mentions_window_by
from belvedere.store.stored_table import StoredTable
from belvedere.syntax.spl.mentions import mentions_spl_window

if TYPE_CHECKING:
    from belvedere.spark.pyspark_types import DataFrame, SparkSession


def sql(spark: SparkSession, text: str, **tables: Any) -> DataFrame:
    """Return the result of one query over frames by name: SQL++ with WINDOW BY, SQL with windows of SPL, or Spark SQL.

    A frame is a DataFrame of Spark, pandas or Polars, a Table or RecordBatch of Arrow, or any object with Arrow's
    PyCapsule interface. Rows enter SPL windows in the order of the frame. Raises `BelvedereError` if a query with
    windows, or a frame, is not valid.
    """
    from belvedere.spark.other_frames import spark_frame  # imports PySpark, which takes a second
    from belvedere.spark.window_by.windows_query import sql as run

    tables = {name: spark_frame(spark, name, frame) for name, frame in tables.items()}
    if mentions_window_by(text) or not mentions_spl_window(text):
        return run(spark, text, **tables)
    from belvedere.spark.query_files import answer_template  # imports PySpark, which takes a second

    rows = {name: frame.toArrow() for name, frame in tables.items()}
    columns = {name: [Column(f.name, f.type) for f in table.schema] for name, table in rows.items()}
    catalog, template = compile_query(text, columns)
    answer = answer_template(
        spark, catalog, template, {i: rows[t.name] for i, t in catalog.inputs.items() if t.name in rows}
    )
    return into_spark(spark, answer)


def compile_query(
    sql: str, columns: Mapping[str, Sequence[Column]], views: str = "", project: ProjectSettings | None = None
) -> tuple[Catalog, QueryTemplate]:
    """Return the catalog of the tables, and the query as its only template; `views` are definitions over the tables.

    Of the project only the functions are used.
    """
    functions = project and ProjectSettings(project.directory, module=project.module, module_place=project.module_place)
    declare = _arriving if mentions_spl_window(sql) else _declaration
    declared = "".join(declare(name, cs) for name, cs in columns.items()) + views
    text = declared + sql.strip().rstrip(";")
    compiled = compile_script(text, path=None, project=functions)
    lead = len(sql) - len(sql.lstrip())
    errors = [
        in_other_text(d, "script.sqrl", len(declared) - lead, QUERY_FILE)
        for d in compiled.diagnostics
        if d.severity is Severity.ERROR
    ]
    if errors:
        raise BelvedereError(errors if columns or views else [_without_tables(e) for e in errors])
    templates = list(compiled.catalog.templates.values())
    return compiled.catalog, one_template(templates, 'write "SELECT ... FROM name", and --table name=path')


def _without_tables(error: Diagnostic) -> Diagnostic:
    """Replace the hint for an unknown table if the command line gave no tables at all."""
    hint = "give --table name=path of a file, or --store URL"
    return replace(error, hint=hint) if error.code == "B2001" else error


def compile_over(
    sql: str, tables: Mapping[str, StoredTable], project: ProjectSettings | None = None
) -> tuple[Catalog, QueryTemplate, dict[str, tuple[str, ...]]]:
    """Return the catalog and template of a query over relations of a store, and the columns that it may read by
    relation id.

    A view keeps its own order. Relations with names that a query cannot contain are internal and omitted, as are the
    store's own tables.
    """
    named = {n: t for n, t in tables.items() if n.isidentifier() and t.schema.visible and not n.startswith(OWN_TABLES)}
    columns = {n: _readable(t) for n, t in named.items()}
    catalog, template = compile_query(sql, columns, "".join(_in_order(t) for t in named.values() if t.order), project)
    views = {i: v.plan for i, v in catalog.views.items()}
    used = {n.relation for n in inline(template.plan, views.get).walk() if isinstance(n, Scan)}
    return (
        catalog,
        template,
        {i: tuple(c.name for c in columns[t.name]) for i, t in catalog.inputs.items() if i in used},
    )


def _readable(table: StoredTable) -> list[Column]:
    """Return the columns that a query may name, and those of the view's order."""
    order = {name for name, _, _ in table.order}
    return [c for c in table.schema.columns if not c.hidden or c.name in order]


def _in_order(table: StoredTable) -> str:
    """Return the definition of a table as a view with its own order."""
    name, shown = quote(table.name), ", ".join(quote(c.name) for c in table.schema.visible)
    keys = (
        f"{quote(c)} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
        for c, descending, first in table.order
    )
    return f"{name} := SELECT {shown} FROM {name} ORDER BY {', '.join(keys)};\n"


def _declaration(name: str, columns: Sequence[Column]) -> str:
    listed = ", ".join(f"{quote(c.name)} {type_text(c.type)}" for c in columns)
    return f"CREATE TABLE {quote(name)} ({listed});\n"


def _arriving(name: str, columns: Sequence[Column]) -> str:
    """Return the declaration of a file's rows in order, as a stream whose event time is its first timestamp."""
    listed = [f"{quote(c.name)} {type_text(c.type)}" for c in columns]
    time = next((c.name for c in columns if c.type == TIMESTAMP), None)
    listed += [] if time is None else [f"WATERMARK FOR {quote(time)}"]
    return f"CREATE STREAM {quote(name)} ({', '.join(listed)});\n"
