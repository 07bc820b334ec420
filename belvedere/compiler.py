"""Compiler of a script's text to a catalog.

In: text, its path and the project file's contents. Out: `Compiled`: the catalog and all diagnostics of parsing and
lowering, and of reads that the store cannot compute. It starts no JVM; it reads a sample of source files for the
columns of imports.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from sqlglot import exp

from belvedere.catalog.access import Access, Grant
from belvedere.catalog.catalog import Catalog
from belvedere.catalog.hints import OnError, Placement
from belvedere.catalog.relationships import TARGET, Relationship, equal_as_they_are
from belvedere.catalog.shown_names import shown_names
from belvedere.catalog.views import View
from belvedere.connectors.exporting.export_targets import refused_targets
from belvedere.connectors.project_file import load_project
from belvedere.connectors.registry import SourceTables
from belvedere.errors import BelvedereError, Diagnostic, Severity
from belvedere.lang.statements.incremental_compile import Progress
from belvedere.lang.statements.lower import lower_script
from belvedere.plan.operators.in_order import InOrder
from belvedere.plan.rewrites.null_on_error import forgive
from belvedere.project.settings import ProjectSettings
from belvedere.schema import Schema
from belvedere.store.read.query import bound_row_condition, link_of
from belvedere.syntax.parse import parse_script

# Trees are processed by recursion, here and when a plan runs: a sum of 500 terms has 500 levels. Deeper ones are B1015.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 5_000))


@dataclass(frozen=True)
class Compiled:
    """The result of a compile. If `ok` is false, the catalog holds only the valid parts and must not run."""

    catalog: Catalog
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no diagnostic is an error."""
        return not any(d.severity is Severity.ERROR for d in self.diagnostics)


def compile_script(
    text: str,
    *,
    path: Path | str | None = None,
    project: ProjectSettings | None = None,
    progress: Progress | None = None,
    store: str | None = None,
) -> Compiled:
    """Compile a script. `path` names it in diagnostics and locates imported scripts and `belvedere.toml`.

    `store` is the URL of its store, if it differs from the project's: views that are computed on read must be within
    the abilities of that database. Without any store they must be within those of all databases.

    With `progress`, which an editor keeps per script, the compile continues at the first change since the last compile.
    """
    file = str(path) if path is not None else "script.sqrl"
    if project is None and path is not None:
        project = load_project(Path(path).resolve().parent)
    if project is not None and project.finder is None:
        project = replace(project, finder=SourceTables())
    project, unread = with_functions(project)
    variables = project.variables if project is not None else {}
    script = parse_script(text, file, progress.script if progress is not None else None, variables)
    catalog, found = lower_script(
        script, path=Path(path) if path is not None else None, project=project, progress=progress
    )
    found += unread
    catalog = replace(catalog, database=database_of(store or (project.store if project is not None else None)))
    catalog = with_policies(
        catalog, OnError(project.on_error or OnError.QUARANTINE) if project is not None else OnError.STOP
    )
    if Compiled(catalog, (*script.diagnostics, *found)).ok:
        catalog, kept = with_kept_links(catalog)
        catalog, refused = with_views_at_read(catalog)
        found += (*kept, *refused)
        found += (*uncomputable_checks(catalog), *refused_streams(catalog), *unanswered_templates(catalog))
        catalog, refused = with_grants(catalog, project)
        found += (*refused, *(refused_targets(catalog, project.sinks) if project is not None else ()))
        found += refused_callers(catalog) if project is not None and "jwt" not in project.api else ()
    diagnostics = sorted(
        dict.fromkeys((*script.diagnostics, *found)), key=lambda d: d.span.start if d.span is not None else -1
    )
    return Compiled(catalog, tuple(map(_for_people, diagnostics)))


def database_of(url: str | None) -> str | None:
    """Return the kind of database of a store's URL; None without a URL, or for an invalid one, which fails when it is
    opened."""
    if url is None:
        return None
    from belvedere.store.dialects import dialect_of  # imported on demand

    try:
        return dialect_of(url).name
    except BelvedereError:
        return None


def _for_people(diagnostic: Diagnostic) -> Diagnostic:
    """Return a diagnostic without internal names."""
    hint, detail = ((t and shown_names(t)) for t in (diagnostic.hint, diagnostic.detail))
    return replace(diagnostic, message=shown_names(diagnostic.message), hint=hint, detail=detail)


def with_functions(project: ProjectSettings | None) -> tuple[ProjectSettings | None, tuple[Diagnostic, ...]]:
    """Return the project with the functions of its module, and the errors in them."""
    if project is None or project.module is None:
        return project, ()
    from belvedere.functions.project_module import read_functions  # imported on demand: few projects need it

    functions, found = read_functions(project.module, project.module_place)
    return replace(project, functions=functions), found


def with_policies(catalog: Catalog, other: OnError) -> Catalog:
    """Return the catalog with the action for each view that fails; `other` if the script does not set it."""
    said = {i: catalog.hints.on_error.get(i, other) for i in catalog.views}
    catalog = replace(catalog, hints=replace(catalog.hints, on_error=said))
    return _forgiving(catalog) if OnError.NULL in said.values() else catalog


def _forgiving(catalog: Catalog) -> Catalog:
    """Return the catalog with views whose failing expressions are NULL; such columns and those derived from them are
    nullable."""
    views: dict[str, View] = {}
    schemas: dict[str, Schema] = {}
    for id_, view in catalog.views.items():  # a view reads earlier ones
        plan = forgive(view.plan, schemas, catalog.hints.on_error.get(id_) is OnError.NULL)
        views[id_], schemas[id_] = replace(view, plan=plan, schema=plan.schema), plan.schema
    subscriptions = {
        i: replace(s, schema=_as_nullable(s.schema, schemas[s.view])) for i, s in catalog.subscriptions.items()
    }
    return replace(catalog, views=views, subscriptions=subscriptions)


def _as_nullable(schema: Schema, observed: Schema) -> Schema:
    columns = (replace(c, nullable=c.nullable or bool((o := observed.find(c.name)) and o.nullable)) for c in schema)
    return Schema(tuple(columns), schema.key)


def with_kept_links(catalog: Catalog) -> tuple[Catalog, tuple[Diagnostic, ...]]:
    """Return the catalog with a stored table for each relationship of the API that the store cannot compute.

    Each of them has a notice (B8022).
    """
    computed = [r for r in catalog.relationships if _is_computed(r, catalog) and _is_shown(r, catalog)]
    if not computed:
        return catalog, ()
    from belvedere.lang.relationships.kept_links import (
        keep_link,
    )  # imported on demand: few scripts have such relationships
    from belvedere.store.read.statements import check_link
    from belvedere.store.read.typed_sql import RefusedExpression

    def refusal(r: Relationship) -> BelvedereError | None:
        try:
            check_link(link_of(r), catalog.schema_of(r.owner), catalog.schema_of(r.target), catalog.database)
        except BelvedereError as error:
            return error
        return None

    found: list[Diagnostic] = []
    tables: set[str] = set()
    for r, error in [(r, e) for r in computed if (e := refusal(r)) is not None]:
        why = error.diagnostics[0]
        if r.parameters:  # its rows depend on the request: they cannot be stored
            message = f"the API leaves `{catalog.name_of(r.owner)}.{r.name}` out: {why.message}"
            found.append(replace(why, message=message, severity=Severity.WARNING, span=r.span))
            continue
        before, named = catalog, why
        if isinstance(error, RefusedExpression):
            named = error.with_table(TARGET, r.alias or catalog.name_of(r.target))
        catalog = keep_link(catalog, r)
        tables |= catalog.views.keys() - before.views.keys()
        stored = catalog is not before
        found.append(_as_stored(r, named, before) if stored else replace(why, severity=Severity.WARNING, span=r.span))
    links = (
        r for r in catalog.relationships if r.owner not in tables or not _is_computed(r, catalog) or refusal(r) is None
    )
    return replace(catalog, relationships=tuple(links)), tuple(found)


def with_views_at_read(catalog: Catalog) -> tuple[Catalog, tuple[Diagnostic, ...]]:
    """Return the catalog with a plan for each view that is computed on read, and an error (B8024) if that is not
    possible."""
    requested = [i for i in catalog.views if catalog.hints.placed.get(i) is Placement.AT_READ]
    if not requested:
        return catalog, ()
    from belvedere.store.read.computed_views import plan_at_read  # imported on demand: few scripts have such views

    found: list[Diagnostic] = []
    for id_ in requested:  # in the order of definition: a view reads earlier ones
        try:
            at_read = {**catalog.placement.at_read, id_: plan_at_read(catalog, id_)}
            catalog = replace(catalog, placement=replace(catalog.placement, at_read=at_read))
        except BelvedereError as error:
            found += error.diagnostics
    return catalog, tuple(found)


def with_grants(catalog: Catalog, project: ProjectSettings | None) -> tuple[Catalog, tuple[Diagnostic, ...]]:
    """Return the catalog with the grants of the project file's roles, and errors in them. B8020: the store cannot
    compute it."""
    if project is None or not project.roles:
        return catalog, ()
    from belvedere.lang.endpoints.grants import grants_of  # imported on demand: few projects have roles

    grants, found = grants_of(catalog, project.roles)
    refused = list(found)
    for name, grant in grants.items():
        for id_ in grant.row_conditions:
            try:
                grants[name] = _with_old_rows(grants[name], id_, catalog.database)
            except BelvedereError as error:
                message = f"role `{name}`, rows of `{catalog.name_of(id_)}`: {error.diagnostics[0].message}"
                place = project.roles[name].place("rows", catalog.name_of(id_))
                refused.append(replace(error.diagnostics[0], message=message, span=place))
    return replace(catalog, access=Access(grants)), tuple(refused)


def _with_old_rows(grant: Grant, id_: str, database: str | None) -> Grant:
    """Return the grant with its condition on these rows also applied to the old values of changed rows; if a database
    cannot evaluate that, the role does not see old values. Raises B8020 if it cannot evaluate the condition at all.
    """
    from belvedere.lang.endpoints.grants import of_both_rows, without_old  # imported on demand
    from belvedere.store.read.statements import check_row_condition

    condition = grant.row_conditions[id_]
    check_row_condition(bound_row_condition(condition), database)
    both = of_both_rows(condition)
    try:
        check_row_condition(bound_row_condition(both), database)
    except BelvedereError:
        return without_old(grant, id_)
    return replace(grant, row_conditions={**grant.row_conditions, id_: both})


def _as_stored(relationship: Relationship, why: Diagnostic, catalog: Catalog) -> Diagnostic:
    name = f"{catalog.name_of(relationship.owner)}.{relationship.name}"
    hint = f"name it `_{relationship.name}` if the API need not show it: then it is not stored"
    return Diagnostic(
        "B8022", f"the rows of `{name}` are stored: {why.message}", Severity.NOTICE, relationship.span, hint=hint
    )


def _is_computed(relationship: Relationship, catalog: Catalog) -> bool:
    """Return whether a relationship is more than equality of columns with the same type and an order by columns."""
    owner, target = catalog.schema_of(relationship.owner), catalog.schema_of(relationship.target)
    cast = any(not equal_as_they_are(owner[own].type, target[theirs].type) for own, theirs in relationship.pairs)
    return (
        cast or relationship.residual is not None or any(not isinstance(o.expr, exp.Column) for o in relationship.order)
    )


def _is_shown(relationship: Relationship, catalog: Catalog) -> bool:
    return not relationship.name.startswith("_") and {relationship.owner, relationship.target} <= catalog.public


def refused_streams(catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return the errors of SELECT STREAM that only the pipeline of a script can find: a view that cannot be streamed
    (B5014).
    """
    if not any(isinstance(node, InOrder) for view in catalog.views.values() for node in view.plan.walk()):
        return ()
    from belvedere.pipeline.choose import maintain  # imported on demand: few scripts stream

    try:
        maintain(catalog)
    except BelvedereError as error:
        return tuple(error.diagnostics)
    return ()


def refused_callers(catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return a warning (B8037) per input, query template and relationship with claims of a token, if no token is
    accepted."""
    inputs = ((t.name, t.span, t.metadata.values()) for t in catalog.inputs.values())
    templates = ((t.name, t.span, [p.metadata for p in t.parameters if p.metadata]) for t in catalog.templates.values())
    links = (
        (f"{catalog.name_of(r.owner)}.{r.name}", r.span, [p.metadata for p in r.parameters if p.metadata])
        for r in catalog.relationships
    )
    claimed = ((name, span, m) for name, span, found in (*inputs, *templates, *links) for m in found if m.claim)
    hint = 'write [api.jwt] with `key = "${env:BELVEDERE_JWT_KEY}"` into belvedere.toml'
    return tuple(
        Diagnostic(
            "B8037",
            f"`{name}` needs {m.meaning}, and [api] configures no tokens: every caller is rejected",
            Severity.WARNING,
            span,
            hint=hint,
        )
        for name, span, m in claimed
    )


def uncomputable_checks(catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return an error (B4044) for each CHECK that cannot be computed exactly before the row is accepted."""
    tables = [i for i in catalog.inputs.values() if i.checks]
    if not tables:
        return ()
    from belvedere.store.row_checks import check_computable  # imported on demand: few scripts have such inputs

    found: list[Diagnostic] = []
    for table in tables:
        for check in table.checks:
            try:
                check_computable(table, check)
            except BelvedereError as error:
                message = f"CHECK `{check.text}` cannot be evaluated on incoming rows"
                hint = "compare columns with columns and literals, or write a view that keeps the rows that fit"
                detail = error.diagnostics[0].message
                found.append(Diagnostic("B4044", message, Severity.ERROR, check.span, detail=detail, hint=hint))
    return tuple(found)


def unanswered_templates(catalog: Catalog) -> tuple[Diagnostic, ...]:
    """Return a warning (B8020, B8021) for each query template that the store cannot answer; the API omits it."""
    if not catalog.templates:
        return ()
    from belvedere.store.read.plans import check_template  # imported on demand: few scripts have templates

    found: list[Diagnostic] = []
    for template in catalog.templates.values():
        try:
            check_template(template, catalog.public, catalog.database)
        except BelvedereError as error:
            found += (replace(d, severity=Severity.WARNING) for d in error.diagnostics)
    return tuple(found)
