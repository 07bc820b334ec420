"""Statements -> catalog: the whole of lowering, statement by statement.

In: a parsed script, its path and the project. Out: a `Catalog` and diagnostics. A statement with an error is omitted,
and statements that name it do not report that. Imported scripts are compiled first, once each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlglot import exp

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import Hints
from belvedere.catalog.inputs import InputKind, SourceTable
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import BelvedereError, Diagnostic, Severity, fail
from belvedere.functions.function_table import is_aggregate
from belvedere.lang.endpoints.implicit_endpoints import with_implicit_endpoints
from belvedere.lang.endpoints.query_hints import (
    idle_hint,
    placements,
    policies,
    promises,
    query_arguments,
    resumed_views,
)
from belvedere.lang.names.definitions import Definitions, NamedRelation
from belvedere.lang.notices.endless_growth import check_catalog
from belvedere.lang.notices.flink_differences import flink_values, flink_windows
from belvedere.lang.notices.project_functions import unplaced_calls
from belvedere.lang.notices.untold_changes import changing_arguments, open_windows
from belvedere.lang.statements.incremental_compile import Progress, is_refused, resumed
from belvedere.lang.statements.lower_columns import define_column
from belvedere.lang.statements.lower_imports import Ask, Importer, answered
from belvedere.lang.statements.lower_inputs import define_created
from belvedere.lang.statements.lower_outputs import define_export, define_subscribed, define_template
from belvedere.lang.statements.lower_relationships import define_by_query, define_relationship
from belvedere.lang.statements.lower_views import define_distinct, define_view
from belvedere.lang.statements.script_lowering import ScriptLowering
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.prune_columns import columns_read
from belvedere.plan.rewrites.rewrite import replace_scans
from belvedere.project.settings import ProjectSettings
from belvedere.syntax.statement_tree import (
    CreateInput,
    CreateSubscription,
    DefineColumn,
    DefineLocalQuery,
    DefineRelationship,
    DefineTemplate,
    DefineView,
    DistinctOn,
    DottedName,
    ExportStatement,
    ImportAll,
    ImportTable,
    Script,
    Statement,
    defined_name,
)


def lower_script(
    script: Script, *, path: Path | None, project: ProjectSettings | None, progress: Progress | None = None
) -> tuple[Catalog, tuple[Diagnostic, ...]]:
    """Return the catalog of a script with its diagnostics. With `progress` it continues from an earlier text of the
    script."""
    lowering = lower_statements(script, path, project, (), {}, progress=progress)
    catalog = finish(lowering)
    if not any(d.severity == "error" for d in lowering.diagnostics):
        catalog, reported = with_implicit_endpoints(
            catalog, frozenset(i for i in catalog.public if i.casefold() in lowering.no_query)
        )
        arguments, found = query_arguments(catalog, lowering.query_by, script.file)
        placed, misplaced = placements(catalog, lowering.placed, script.file)
        promised, unread = promises(catalog, lowering.promised, script.file)
        on_error, unsaid = policies(catalog, lowering.on_error, script.file)
        resumed, idle = resumed_views(catalog, lowering.resumed, script.file)
        catalog = replace(catalog, hints=Hints(arguments, placed, on_error, resumed, promised))
        lowering.diagnostics += [*reported, *found, *misplaced, *unread, *unsaid, *idle]
    if not any(d.severity == "error" for d in lowering.diagnostics):
        lowering.diagnostics += [
            *check_catalog(catalog),
            *unplaced_calls(catalog),
            *open_windows(catalog),
            *changing_arguments(catalog),
            *flink_windows(catalog),
            *flink_values(catalog, script.text),
        ]
    return catalog, tuple(lowering.diagnostics)


def lower_statements(
    script: Script,
    path: Path | None,
    project: ProjectSettings | None,
    chain: tuple[Path, ...],
    compiled: dict[Path, Definitions],
    known: Definitions | None = None,
    *,
    progress: Progress | None = None,
    ask: Ask = answered,
) -> ScriptLowering:
    """Lower all statements of one script. `chain` are the scripts that import this one; `compiled` are those already
    compiled.

    `known` are definitions to continue from, which are extended. `progress` holds states of an earlier text. `ask`
    sends the questions to sources and files.
    """
    sinks = frozenset(project.sinks) if project is not None else None
    lowering = ScriptLowering(script.file, script.text, sinks, known if known is not None else Definitions())
    lowering.definitions.broken |= script.unread
    reached = progress.resume(script, project) if progress is not None else None
    if reached is not None:
        lowering, compiled = resumed(reached, script), dict(reached.scripts)
    if project is not None:
        lowering.definitions.functions = project.functions
    here, ask = path.resolve() if path is not None else None, progress.ask if progress is not None else ask
    importer = Importer(lowering, here, project, chain, lower_statements, compiled, ask)
    for statement in reversed(script.statements):
        if (name := _name_of(statement)) is not None:
            lowering.definitions.lines[name.casefold()] = script.text.count("\n", 0, statement.span.start) + 1
    done = reached.count if reached is not None else 0
    for count, statement in enumerate(script.statements[done:], done + 1):
        name = _name_of(statement)
        before = lowering.definitions.find(name) if name is not None else None
        try:
            _lower(statement, lowering, importer)
            lowering.read_hints(statement)
            lowering.diagnostics += _taken_away(lowering.definitions, before, statement)
        except (BelvedereError, RecursionError) as error:
            lowering.diagnostics += error.diagnostics if isinstance(error, BelvedereError) else (_too_deep(statement),)
            _break(statement, lowering.definitions)
            progress = None
        if progress is not None and not is_refused(lowering):
            progress.keep(count, lowering, compiled)
    lowering.diagnostics += [idle_hint(hint, None, script.file) for hint in script.stray_hints]
    lowering.notice_selected()
    return lowering


def define_input(script: ScriptLowering, statement: CreateInput, source: SourceTable | None = None) -> None:
    """Define `CREATE STREAM | TABLE`, then the columns computed from the others."""
    for clause in statement.clauses.watermarks:
        if any(c.name.text.casefold() == clause.column.text.casefold() for c in statement.computed):
            hint = (
                "declare the time as a column of the row, or remove WATERMARK FOR: a stream then has the event time "
                "`rowtime`"
            )
            raise fail("B5001", f"event-time column `{clause.column.text}` is computed", span=clause.span, hint=hint)
    define_created(statement, script.definitions, script.file, source)
    if (
        statement.kind is InputKind.TABLE
        and source is None
        and statement.clauses.watermarks
        and not statement.primary_key
        and not statement.clauses.late
    ):
        message = (
            f"late rows of the table `{statement.name.text}` are used, unlike in Flink, because its rows can "
            "change and it has no key"
        )
        hint = "write CREATE STREAM for append-only rows, or LATE DROP or LATE KEEP after the columns"
        script.diagnostics.append(Diagnostic("B5035", message, Severity.NOTICE, statement.span, hint=hint))
    script.diagnostics += _without_digits(statement)
    for made in statement.computed:
        path = DottedName((statement.name, made.name))
        define_column(script, DefineColumn(span=made.span, doc=made.doc, path=path, expression=made.expression))


def _without_digits(statement: CreateInput) -> Iterator[Diagnostic]:
    """Yield a notice (B4048) for each DECIMAL column without precision and scale."""
    for written in statement.columns:
        if any(d.this == exp.DataType.Type.DECIMAL and not d.expressions for d in written.type.find_all(exp.DataType)):
            message = (
                f"DECIMAL of `{written.name.text}` is DECIMAL(10, 0): only whole numbers fit, and other rows are "
                "rejected"
            )
            hint = "write the number of digits: DECIMAL(10, 2) has two after the point"
            yield Diagnostic("B4048", message, Severity.NOTICE, written.span, hint=hint)


HANDLERS: dict[type[Statement], Callable[[ScriptLowering, Any], None]] = {
    CreateInput: define_input,
    DefineView: define_view,
    DistinctOn: define_distinct,
    DefineColumn: define_column,
    DefineLocalQuery: define_by_query,
    DefineRelationship: define_relationship,
    CreateSubscription: define_subscribed,
    ExportStatement: define_export,
    DefineTemplate: define_template,
}


def _too_deep(statement: Statement) -> Diagnostic:
    hint = "split it into several views or columns"
    return Diagnostic("B1015", "this statement is nested too deeply", span=statement.span, hint=hint)


def _lower(statement: Statement, lowering: ScriptLowering, importer: Importer) -> None:
    if isinstance(statement, ImportTable):
        importer.import_table(statement)
    elif isinstance(statement, ImportAll):
        importer.import_all(statement)
    elif isinstance(statement, CreateInput):
        statement = importer.with_file_columns(statement)
        define_input(lowering, statement, importer.declared_table(statement))
    else:
        HANDLERS[type(statement)](lowering, _as_own(statement))


def _as_own(statement: Statement) -> Statement:
    """Return a copy of a statement whose query lowering may change: an editor's next compile reads the parsed one
    again."""
    query = getattr(statement, "query", None)
    calls = query.find_all(exp.Func) if isinstance(query, exp.Query) else ()
    if not isinstance(query, exp.Query) or not any(is_aggregate(call) for call in calls):
        return statement
    changed: Any = statement
    own: Statement = replace(changed, query=query.copy())
    return own


def _name_of(statement: Statement) -> str | None:
    """Return the name that a statement defines, including relationships."""
    return statement.path.text if isinstance(statement, DefineRelationship) else defined_name(statement)


def _taken_away(definitions: Definitions, before: NamedRelation | None, statement: Statement) -> Iterator[Diagnostic]:
    """Yield a notice (B4046) if another definition of a name lacks columns or relationships of the one before it."""
    after = definitions.find(before.name) if before is not None else None
    if before is None or after is None or after.id == before.id or after.grows == before.id or after.parent is not None:
        return
    columns = [c.name for c in before.schema.visible if after.schema.find(c.name) is None]
    links = [r.name for r in before.relationships.values() if after.relationship(r.name) is None]
    links += [t.field for t in definitions.computed.values() if t.owner == before.id]
    parts = [
        f"{kind} {', '.join(f'`{n}`' for n in names)}"
        for kind, names in (("columns", columns), ("relationships", links))
        if names
    ]
    if parts:
        message = f"`{after.name}` is defined again, without the {' and '.join(parts)} of its definition before"
        hint = f"earlier statements keep the former definition; repeat the {' and '.join(parts)} after the new one"
        yield Diagnostic("B4046", message, Severity.NOTICE, statement.span, hint=hint)


def _break(statement: Statement, definitions: Definitions) -> None:
    """Record the names that a rejected statement would have defined; other statements do not report them."""
    name = _name_of(statement)
    if isinstance(statement, ImportAll):
        definitions.broken.all = True
    if name is not None and definitions.find(name) is None:
        definitions.broken.add(name.casefold())


# -- final ids of the catalog ------------------------------------------------------------------------------------------


def finish(lowering: ScriptLowering) -> Catalog:
    """Return the definitions under their final ids."""
    definitions = lowering.definitions
    ids = definitions.final_ids()
    inputs = {ids[i]: replace(x, id=ids[i], late_of=ids.get(x.late_of or "")) for i, x in definitions.inputs.items()}
    views = {
        ids[i]: replace(
            v,
            id=ids[i],
            plan=rename_scans(v.plan, ids),
            parent=_present(v.parent, definitions, ids),
            query=v.query and v.query.renamed(ids),
        )
        for i, v in definitions.views.items()
    }
    subscriptions = {ids[i]: replace(s, id=ids[i], view=ids[s.view]) for i, s in definitions.subscriptions.items()}
    made = (*lowering.templates.values(), *_computed(definitions))
    templates = {q.name: replace(q, plan=rename_scans(q.plan, ids), owner=ids.get(q.owner, "")) for q in made}
    exports = tuple(replace(e, relation=ids[e.relation]) for e in lowering.exports)
    links, public = relationships(definitions, ids), _public(definitions, ids)
    histories = {ids[i]: keep for i, keep in definitions.histories.items()}
    return Catalog(
        inputs,
        views,
        links,
        templates,
        subscriptions,
        exports,
        public,
        histories=histories,
        functions=tuple(definitions.functions.values()),
    )


def _present(parent: str | None, definitions: Definitions, ids: dict[str, str]) -> str | None:
    if parent is None:
        return None
    return ids[definitions.with_columns_of(definitions.relations[parent]).id]


def _computed(definitions: Definitions) -> Iterator[QueryTemplate]:
    """Yield the relationships that compute rows, of the present versions of their owners and of the relations that they
    read: those with the columns added since."""

    for template in definitions.computed.values():
        read = columns_read(template.plan)

        def with_owner(scan: Scan, read: Mapping[str, frozenset[str]] = read) -> Scan:
            relation = definitions.relations[scan.relation]
            return replace(scan, relation=definitions.with_columns_of(relation, read.get(scan.relation, ())).id)

        owner = definitions.with_columns_of(definitions.relations[template.owner])
        if definitions.find(owner.name) is owner:
            yield replace(template, owner=owner.id, plan=replace_scans(template.plan, with_owner))


def rename_scans(node: Node, ids: Mapping[str, str]) -> Node:
    """Return the same plan over the relations' final ids."""
    return replace_scans(node, lambda scan: replace(scan, relation=ids.get(scan.relation, scan.relation)))


def relationships(definitions: Definitions, ids: dict[str, str]) -> tuple[Relationship, ...]:
    """Return the relationships of the current versions."""
    return tuple(
        replace(seen, owner=ids[relation.id], target=ids[seen.target])
        for relation in definitions
        for seen in map(definitions.as_seen, relation.relationships.values())
    )


def _public(definitions: Definitions, ids: dict[str, str]) -> frozenset[str]:
    """Return the ids of the current versions of all names without a private part. Late rows are read in the script, not
    through the API."""
    late = {x.name for x in definitions.inputs.values() if x.late_of is not None}
    return frozenset(
        ids[r.id]
        for r in definitions
        if "~" not in r.name and r.name not in late and not any(p.startswith("_") for p in r.name.split("."))
    )
