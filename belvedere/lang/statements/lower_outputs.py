"""Exports and query templates: outputs of a script, to sinks and through the API.

In: the statement and the script so far. Out: the script's exports and templates, extended by it.
"""

from __future__ import annotations

from dataclasses import replace

from belvedere.catalog.subscriptions import Export
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import fail
from belvedere.lang.endpoints.parameters import declared_parameters, infer_parameters, typed_parameters
from belvedere.lang.endpoints.parametrised_subscriptions import split_parameters
from belvedere.lang.endpoints.view_order import ordered_plan
from belvedere.lang.notices.uncomputable import refuse_unbound
from belvedere.lang.relationships.nested_rows import with_parent
from belvedere.lang.select.queries import lower_query
from belvedere.lang.statements.lower_views import define_subscription
from belvedere.lang.statements.script_lowering import ScriptLowering, finish_plan, refuse_variants
from belvedere.syntax.query_tree import WindowByBlock, unwrap_query
from belvedere.syntax.statement_tree import CreateSubscription, DefineTemplate, ExportStatement
from belvedere.syntax.wording import did_you_mean


def define_subscribed(script: ScriptLowering, statement: CreateSubscription) -> None:
    """Define a subscription. With parameters its events have no endpoint of their own: a query template filters
    them."""
    if not statement.parameters:
        define_subscription(script, statement)
        return
    events, template = split_parameters(statement)
    define_subscription(script, events)
    define_template(script, template)
    script.no_query.add(statement.path.text.casefold())


def define_export(script: ScriptLowering, statement: ExportStatement) -> None:
    """Define `EXPORT V TO sink.Name`."""
    relation = script.owner(statement.relation.parts, statement.relation.span)
    if script.sinks is not None and statement.sink.text.casefold() not in {s.casefold() for s in script.sinks}:
        hint = did_you_mean(statement.sink.text, script.sinks) or f"add [sinks.{statement.sink.text}] to belvedere.toml"
        raise fail("B6110", f"sink `{statement.sink.text}` is not configured", span=statement.sink.span, hint=hint)
    if relation.parent is not None:
        relation = script.add_view(
            f"{relation.name}~export", script.by_content(with_parent(relation)), statement.span, None
        )
    script.exports.append(Export(relation.id, statement.sink.text, statement.target.text, {}, statement.span))


def define_template(script: ScriptLowering, statement: DefineTemplate) -> None:
    """Define `Q(name TYPE) := query` or a top-level SELECT with `?` or `:name`."""
    if isinstance(unwrap_query(statement.query), WindowByBlock):
        hint = "write it as a view, and query the view"
        raise fail("B5020", "WINDOW BY is not allowed in a query template", span=statement.span, hint=hint)
    parameters = declared_parameters(statement.parameters) or infer_parameters(statement.query, script.context())
    context = replace(script.context(typed_parameters(parameters)), is_read=True)
    plan = finish_plan(ordered_plan(lower_query(statement.query, context))[0])
    refuse_unbound(plan, statement.span)
    refuse_variants(plan, statement.span)
    name = statement.path.text if statement.path is not None else _template_name(script)
    if name in script.templates:
        raise fail(
            "B2008", f"query template `{name}` is defined twice", span=statement.span, hint="choose another name"
        )
    script.templates[name] = QueryTemplate(
        name,
        parameters,
        plan,
        plan.schema,
        statement.span,
        statement.doc,
        script.written(statement.span),
        statement.events,
        is_named=statement.path is not None,
    )


def _template_name(script: ScriptLowering) -> str:
    n = 1
    while f"query{n}" in script.templates or script.definitions.find(f"query{n}") is not None:
        n += 1
    return f"query{n}"
