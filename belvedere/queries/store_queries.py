"""Queries over the relations of a store. The database answers a query that it computes exactly like Spark; otherwise
Spark answers it.

In: SQL, a store's reader, and optionally the script, whose relationships the query may use. Out: Arrow rows of one
epoch in the query's order, and the relations in quarantine among its inputs. Both ways run the same plan, so they
return the same rows; `now()` is the epoch's clock. It writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input, InputKind
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.views import View
from belvedere.compiler import with_functions
from belvedere.connectors.registry import SourceTables
from belvedere.engine.errors.failed_stages import failures_of, quarantined
from belvedere.engine.relation import name_in_script
from belvedere.errors import BelvedereError, Diagnostic, Severity, fail
from belvedere.lang.endpoints.template_calls import called_template
from belvedere.lang.names.definitions import Definitions
from belvedere.lang.statements.lower import finish, lower_statements
from belvedere.lang.statements.lower_outputs import define_template
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.plan.expressions import column
from belvedere.plan.operators.nodes import Item, Node, Order, Project, Scan, TopK, Values
from belvedere.plan.rewrites.rewrite import inline
from belvedere.project.settings import ProjectSettings
from belvedere.schema import KEY, Column, Schema
from belvedere.store.protocol import EpochRow, Reader
from belvedere.store.read.computed_views import BEYOND, plan_of_unstored, text_at_read
from belvedere.store.stored_table import StoredTable
from belvedere.syntax.parse import parse_script
from belvedere.syntax.statement_tree import DefineTemplate

if TYPE_CHECKING:
    from belvedere.spark.pyspark_types import SparkSession

QUERY_FILE = "<query>"
PLACE = "_place~"
"""Column with a row's position in the query's order."""


@dataclass(frozen=True)
class StoreAnswer:
    """The rows of a query in its order."""

    rows: pa.Table
    by_spark: str = ""
    """Why Spark computed the answer; empty if the database did."""
    quarantined: Mapping[str, int | None] = field(default_factory=dict)
    """Relations in quarantine that it reads, each with its last good epoch; None if no epoch has filled it."""


@dataclass(frozen=True)
class Vocabulary:
    """Names that a query may use: relations with their relationships, and query templates by their folded names."""

    definitions: Definitions
    templates: Mapping[str, DefineTemplate] = field(default_factory=dict)
    compiled: Catalog | None = None
    """The script's catalog, from whose plans private views are computed."""
    file: str = QUERY_FILE
    text: str = ""
    """The script's text, if there is a script."""


def script_vocabulary(text: str, path: Path, project: ProjectSettings, compiled: Catalog) -> Vocabulary:
    """Return all names of a script; its errors were reported when it was compiled."""
    project, _ = with_functions(replace(project, finder=project.finder or SourceTables()))  # type: ignore[assignment]
    script = parse_script(text, str(path))
    lowering = lower_statements(script, path, project, (), {})
    named = [s for s in script.statements if isinstance(s, DefineTemplate) and s.path is not None]
    templates = {s.path.text.casefold(): s for s in named if s.path is not None}
    return Vocabulary(lowering.definitions, templates, compiled, script.file, text)


def store_vocabulary(tables: Iterable[StoredTable], project: ProjectSettings | None = None) -> Vocabulary:
    """Return the relations of a store with their keys and orders. Of the project only the functions are used."""
    known = Definitions()
    project, _ = with_functions(project)
    known.functions = project.functions if project is not None else {}
    for table in tables:
        schema = _keyed(table)
        id_ = known.new_id(table.name)
        made: Input | View = Input(id_, table.name, InputKind.TABLE, schema)
        if table.order:
            order = tuple(Order(column(name), down, first) for name, down, first in table.order)
            made = View(id_, table.name, Values(schema.columns, ()), schema, order=order)
        known.define(made)
    return Vocabulary(known)


def _keyed(table: StoredTable) -> Schema:
    """Return the schema, with `_key` among its columns if the rows have no other key."""
    schema = table.schema
    if schema.key is not None:
        return schema
    return Schema((*schema.columns, Column(KEY, pa.string(), nullable=False, hidden=True)), (KEY,))


def vocabulary_catalog(known: Vocabulary) -> Catalog:
    """Return the names that a query may use, as a catalog."""
    return finish(ScriptLowering(known.file, known.text, None, known.definitions.copy()))


def compile_read(sql: str, known: Vocabulary) -> tuple[Catalog, QueryTemplate]:
    """Compile a query over known relations, or the call of a query template. Raises diagnostics with positions in its
    text."""
    call, found = called_template(sql, known.templates), list[Diagnostic]()
    if call is not None:
        lowering = ScriptLowering(known.file, known.text, None, known.definitions.copy())
        define_template(lowering, call)
    else:
        script = parse_script(sql, QUERY_FILE)
        if any(not isinstance(s, DefineTemplate) or s.path is not None for s in script.statements):
            raise fail(
                "B9120", "a definition is not a query", hint="write definitions in a script, and name it by --script"
            )
        lowering = lower_statements(script, None, None, (), {}, known.definitions.copy())
        found += script.diagnostics
    errors = [d for d in (*found, *lowering.diagnostics) if d.severity is Severity.ERROR]
    if errors:
        raise BelvedereError(errors)
    template = one_template(
        list(lowering.templates.values()), 'write one "SELECT ... FROM name" over relations of the store'
    )
    catalog = finish(lowering)
    return catalog, catalog.templates[template.name]


def one_template(templates: list[QueryTemplate], hint: str) -> QueryTemplate:
    """Return the only query of a text, without parameters. Raises B9120, with a hint, or B9121."""
    if len(templates) != 1:
        found = "no query" if not templates else f"{len(templates)} queries"
        raise fail("B9120", f"one query is needed, found {found}", hint=hint)
    if templates[0].parameters:
        name = templates[0].parameters[0].name
        raise fail("B9121", f"the query has a parameter `{name}`", hint="write its value instead")
    return templates[0]


def answer_query(
    sql: str, reader: Reader, tables: Mapping[str, StoredTable], known: Vocabulary, spark: Callable[[str], SparkSession]
) -> StoreAnswer:
    """Answer one query of the relations in the store; `spark` is called with the reason why a session is needed, and
    returns it.
    """
    catalog, template = compile_read(sql, known)
    compiled = known.compiled
    plan = template.plan if compiled is None else inline(template.plan, lambda i: plan_of_unstored(compiled, i, tables))
    _check_stored(plan, tables)
    plan, is_ordered = with_place(plan)
    shown = [c.name for c in template.schema.visible]
    try:
        last, rows, why = *answer_in_store(plan, reader), ""
    except BelvedereError as error:
        found = error.diagnostics[0]
        if found.code not in BEYOND:
            raise
        last, rows, why = *answer_in_spark(plan, catalog, reader, tables, spark(found.message)), found.message
    return StoreAnswer(
        (rows.sort_by(PLACE) if is_ordered else rows).select(shown), why, _quarantined_in(plan, tables, last)
    )


def with_place(plan: Node) -> tuple[Node, bool]:
    """Return the plan with a column that numbers its rows by its outermost ORDER BY, and whether it has an ORDER BY."""
    if isinstance(plan, Project):
        inner, is_ordered = with_place(plan.input)
        if not is_ordered:
            return plan, False
        return Project(inner, (*plan.items, Item(PLACE, column(PLACE), pa.int32(), nullable=False, hidden=True))), True
    if not isinstance(plan, TopK) or plan.partition or not plan.order or plan.number is not None:
        return plan, False
    rows = plan.input if plan.limit is None and not plan.offset else plan
    return TopK(rows, plan.order, None, number=Column(PLACE, pa.int32(), nullable=False, hidden=True)), True


def answer_in_store(plan: Node, reader: Reader) -> tuple[EpochRow | None, pa.Table]:
    """Return the rows as the database computes them, and their epoch."""
    query = text_at_read(plan, reader.dialect)
    try:
        last, (rows,) = reader.rows_together([StoredTable("", Schema(plan.schema.columns), query=query)])
    except pa.ArrowInvalid as error:
        raise fail(
            "B7088", "a value of the database does not have the type of its column", detail=str(error)
        ) from error
    return last, rows


def answer_in_spark(
    plan: Node, catalog: Catalog, reader: Reader, tables: Mapping[str, StoredTable], spark: SparkSession
) -> tuple[EpochRow | None, pa.Table]:
    """Return the rows as Spark computes them from the tables' rows, and their epoch."""
    from belvedere.spark.plan_answers import by_spark  # imports PySpark, which takes a second

    scanned = list(dict.fromkeys(n.relation for n in plan.walk() if isinstance(n, Scan)))
    last, found = reader.rows_together([tables[i] for i in scanned])
    rows = dict(zip(scanned, found, strict=True))
    return last, by_spark(lambda: spark, catalog)([plan], rows, last.clock if last else datetime.now(UTC))[0]


def _quarantined_in(plan: Node, tables: Mapping[str, StoredTable], last: EpochRow | None) -> dict[str, int | None]:
    """Return the relations of a plan that are in quarantine in an epoch."""
    held = quarantined(failures_of(last.extra)) if last is not None else {}
    read = {n.relation for n in plan.walk() if isinstance(n, Scan)}
    return {tables[i].name: epoch for i, epoch in held.items() if i in read}


def _check_stored(plan: Node, tables: Mapping[str, StoredTable]) -> None:
    """Raise if the script does not match the store, or rows are not stored."""
    for node in plan.walk():
        if not isinstance(node, Scan):
            continue
        table = tables.get(node.relation)
        if table is None:
            name = name_in_script(node.relation)
            raise fail(
                "B8021", f"the query reads `{name}`, which is not stored", hint="query a public view, which is stored"
            )
        stored = {c.name: c.type for c in _keyed(table).columns}
        other = next((c.name for c in node.schema if stored.get(c.name) != c.type), None)
        if other is not None:
            message = f"the store has another `{table.name}` than the script: column `{other}` differs"
            raise fail(
                "B9125", message, hint="bring the store up to date by `belvedere run`, or query without the script"
            )
