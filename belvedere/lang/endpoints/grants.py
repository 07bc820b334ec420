"""Grants of the project file's roles over a script.

In: a catalog, `RoleSettings`. Out: `Grant`s by role, and diagnostics:

- names that the script does not have (B9107)
- conditions that do not compile
- templates that read data hidden from the role
- relations with rows of restricted ones but without their own condition
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from belvedere.catalog.access import Grant, Right, RowCondition
from belvedere.catalog.catalog import Catalog, pushed_inputs
from belvedere.catalog.relationships import Relationship
from belvedere.catalog.templates import QueryTemplate
from belvedere.errors import BelvedereError, Diagnostic, Severity, Span, fail
from belvedere.lang.endpoints.row_conditions import row_condition
from belvedere.plan.expressions import columns_of, map_columns
from belvedere.plan.operators.nodes import Node, Project, Scan
from belvedere.plan.rewrites.prune_columns import prune
from belvedere.project.role_settings import RoleSettings
from belvedere.syntax.wording import did_you_mean

OLD = "_old"


def grants_of(catalog: Catalog, roles: Mapping[str, RoleSettings]) -> tuple[dict[str, Grant], tuple[Diagnostic, ...]]:
    """Return the grants of all roles, and diagnostics."""
    grants: dict[str, Grant] = {}
    found: list[Diagnostic] = []
    for name, role in roles.items():
        granting = _Granting(catalog, role)
        grants[name] = granting.grant()
        found += granting.diagnostics
    return grants, tuple(found)


@dataclass
class _Granting:
    """State while one role's grant is computed."""

    catalog: Catalog
    role: RoleSettings
    diagnostics: list[Diagnostic] = field(default_factory=list)
    relations: dict[str, str] = field(default_factory=dict)
    """Ids, with the names in the project file."""
    templates: dict[str, str] = field(default_factory=dict)
    rows: dict[str, RowCondition] = field(default_factory=dict)
    hidden: dict[str, frozenset[str]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Relations that the role would see without the errors in their settings."""

    def grant(self) -> Grant:
        """Return the role's grant. Settings with errors are in `diagnostics`, and not granted."""
        for name in self.role.views:
            self._try(self._see, name)
        for name in self.role.hidden:
            self._try(self._hide, name)
        for name in self.role.rows:
            self._try(self._restrict, name)
        for id_ in list(self.relations):
            self._try(self._check_source, id_)
            self._warn_of_view(id_)
        for name in list(self.templates):
            self._try(self._check_template, self.catalog.templates[name])
        self.templates |= {t.name: t.name for t in self.catalog.templates.values() if t.owner and self._may_compute(t)}
        pushes = frozenset(i for i in map(self._pushed, self.role.pushes) if i is not None)
        for relationship in self.catalog.relationships:
            self._keep(relationship)
        defaults = ({Right.READ} if self.role.views else set()) | ({Right.PUSH} if pushes else set())
        rights = frozenset(defaults if self.role.rights is None else map(Right, self.role.rights))
        return Grant(
            self.role.name, rights, frozenset(self.relations), frozenset(self.templates), pushes, self.hidden, self.rows
        )

    def _try(self, step: object, given: object) -> None:
        try:
            step(given)  # type: ignore[operator]
        except BelvedereError as error:
            self.diagnostics += error.diagnostics

    def _refusal(self, message: str, place: Span | None, hint: str | None = None) -> BelvedereError:
        return fail("B9107", f"role `{self.role.name}`: {message}", span=place, hint=hint)

    # -- names

    def _see(self, name: str) -> None:
        named = (t.name for t in self.catalog.templates.values() if not t.owner)
        template = next((n for n in named if n.casefold() == name.casefold()), None)
        id_ = self.catalog.find(name)
        if template is not None:
            self.templates[template] = name
        if id_ is not None and id_ in self.catalog.public:
            self.relations[id_] = name
        elif template is None and id_ is not None:
            raise self._refusal(
                f"`{name}` is private, so it is not served", self.role.place("views", name), "name a served relation"
            )
        elif template is None:
            known = [*(self.catalog.name_of(i) for i in self.catalog.public), *self.catalog.templates]
            message = f"the script does not define `{name}`"
            raise self._refusal(message, self.role.place("views", name), did_you_mean(name, sorted(known)))

    def _seen(self, name: str, kind: str) -> str:
        """Return the id of a relation that the role may see."""
        id_ = self.catalog.find(name)
        if id_ is None or id_ not in self.relations:
            hint = did_you_mean(name, self.relations.values()) or "name it in `views` first"
            raise self._refusal(f"`{name}` is not in its `views`", self.role.place(kind, name), hint)
        return id_

    def _pushed(self, name: str) -> str | None:
        inputs = pushed_inputs(self.catalog)
        found = next((i for i, t in reversed(inputs.items()) if t.name.casefold() == name.casefold()), None)
        place = self.role.place("pushes", name)
        if found is None:
            hint = did_you_mean(name, [t.name for t in inputs.values()]) or "the script has no input that accepts rows"
            self.diagnostics += self._refusal(f"no input `{name}` accepts rows", place, hint).diagnostics
        elif found in self.hidden:
            hint = "remove it from `pushes` or from `hidden`"
            self.diagnostics += self._refusal(
                f"it pushes rows to `{name}`, but some of its columns are hidden from it", place, hint
            ).diagnostics
        return found

    # -- columns and rows

    def _hide(self, name: str) -> None:
        id_ = self._seen(name, "hidden")
        schema = self.catalog.schema_of(id_)
        columns = set()
        for column in self.role.hidden[name]:
            found = schema.find(column)
            if found is None:
                hint = did_you_mean(column, [c.name for c in schema.visible])
                raise self._refusal(f"`{name}` has no column `{column}`", self.role.place("hidden", name, column), hint)
            columns.add(found.name)
        subscription = self.catalog.subscriptions.get(id_)
        if columns and subscription is not None and (old := subscription.schema.find(OLD)) is not None:
            columns.add(old.name)  # the column has the old row, with all its values
        if columns:
            self.hidden[id_] = frozenset(columns)

    def _restrict(self, name: str) -> None:
        id_ = self._seen(name, "rows")
        place = self.role.place("rows", name, "text")
        try:
            self.rows[id_] = row_condition(self.role.rows[name], self.catalog.schema_of(id_), name, place)
        except BelvedereError:
            self._deny(id_)  # on an error hide the whole relation
            raise

    def _deny(self, id_: str) -> str:
        """Remove a relation from those that the role sees; return its name."""
        self.broken.add(id_)
        return self.relations.pop(id_)

    def _check_source(self, id_: str) -> None:
        """Reject a relation that contains rows of a restricted one, if it has no condition of its own."""
        for source in self._sources(id_):
            if source in self.rows and id_ not in self.rows:
                name, own = self._deny(id_), self.catalog.name_of(source)
                hint = f'set its rows: "{name}" = "..." in [roles.{self.role.name}.rows], or "true" for all'
                raise self._refusal(
                    f"`{name}` has rows of `{own}`, of which the role sees only some",
                    self.role.place("views", name),
                    hint,
                )
            shown = self.hidden.get(source, frozenset()) & set(self.catalog.schema_of(id_).names)
            if shown and self.relations[id_].casefold() not in {n.casefold() for n in self.role.hidden}:
                name, own = self._deny(id_), self.catalog.name_of(source)
                column = sorted(shown)[0]
                hint = (
                    f'set its hidden columns: "{name}" = ["{column}"] in [roles.{self.role.name}.hidden], or [] '
                    "for none"
                )
                message = f"`{name}` shows `{column}`, which is hidden in `{own}`"
                raise self._refusal(message, self.role.place("views", name), hint)

    def _warn_of_view(self, id_: str) -> None:
        """Warn that a view is computed from rows that the role does not see."""
        view = self.catalog.views.get(id_)
        if view is None or id_ in self.rows or id_ not in self.relations:
            return
        source = next((s for s in self._scanned(view.plan) if s in self.rows), None)
        if source is not None:
            name, own = self.relations[id_], self.catalog.name_of(source)
            message = (
                f"role `{self.role.name}`: `{name}` is computed from all rows of `{own}`, of which the role sees "
                "only some"
            )
            hint = f'set its rows: "{name}" = "..." in [roles.{self.role.name}.rows], or "true" for all'
            place = self.role.place("views", name)
            self.diagnostics.append(Diagnostic("B9107", message, Severity.WARNING, place, hint=hint))

    def _sources(self, id_: str) -> Iterator[str]:
        """Yield the relations whose rows appear one by one in a relation: in a nested table, or in events."""
        view, subscription = self.catalog.views.get(id_), self.catalog.subscriptions.get(id_)
        if view is not None and view.parent is not None:
            yield view.parent
        if subscription is not None:
            yield subscription.view
            yield from self._scanned(self.catalog.views[subscription.view].plan)

    def _scanned(self, plan: Node) -> Iterator[str]:
        """Yield the relations that a plan reads, through views that are not served."""
        for node in plan.walk():
            if isinstance(node, Scan):
                yield node.relation
                view = self.catalog.views.get(node.relation)
                if view is not None and node.relation not in self.catalog.public:
                    yield from self._scanned(view.plan)

    def _check_template(self, template: QueryTemplate) -> None:
        """Reject a template that reads more than the role may see."""
        place = self.role.place("views", self.templates[template.name])
        for node in prune(template.plan).walk():
            if isinstance(node, Scan) and node.relation not in self.relations:
                self.templates.pop(template.name)
                if node.relation in self.broken:
                    return
                shown = self.catalog.name_of(node.relation)
                hint = f"add `{shown}` to its `views`, or remove the template"
                raise self._refusal(
                    f"query template `{template.name}` reads `{shown}`, which the role may not see", place, hint
                )
        read = columns_read(template.plan)
        seen = [
            f"{self.catalog.name_of(i)}.{c}"
            for i, columns in self.hidden.items()
            for c in sorted(columns & read.get(i, frozenset()))
        ]
        if seen:
            self.templates.pop(template.name)
            message = f"query template `{template.name}` reads `{seen[0]}`, which is hidden"
            raise self._refusal(message, place, "remove the template, or do not hide the column")

    def _may_compute(self, template: QueryTemplate) -> bool:
        """Return whether the role sees all that a relationship of a relation reads, and its name."""
        read = columns_read(template.plan)
        scans = (n.relation for n in prune(template.plan).walk() if isinstance(n, Scan))
        hidden = any(self.hidden.get(i, frozenset()) & columns for i, columns in read.items())
        own = self.hidden.get(template.owner, frozenset())
        hidden = hidden or template.field in own or any(r.column in own for r in template.row)
        return template.owner in self.relations and not hidden and all(i in self.relations for i in scans)

    def _keep(self, relationship: Relationship) -> None:
        """Show the stored rows of a relationship to roles that see both its sides, with the grant of its target."""
        kept, owner, target = relationship.kept, relationship.owner, relationship.target
        if kept is None or not {owner, target} <= self.relations.keys() or relationship.reads_any(self.hidden):
            return
        schema = self.catalog.schema_of(kept)
        condition = self.rows.get(target)
        if condition is not None and any(schema.find(c.name) is None for c in condition.condition.find_all(exp.Column)):
            return
        self.relations[kept] = self.catalog.name_of(kept)
        if condition is not None:
            self.rows[kept] = replace(condition, schema=schema)
        if hidden := frozenset(c for c in self.hidden.get(target, ()) if schema.find(c) is not None):
            self.hidden[kept] = hidden


def of_both_rows(condition: RowCondition) -> RowCondition:
    """Return the condition on both the new and the old (`_old`) values of a changed row. So an event never shows a row
    that the role could not see. A condition on rows without `_old` is unchanged."""
    old = condition.schema.find(OLD)
    if old is None or not pa.types.is_struct(old.type):
        return condition
    members, before = {f.name for f in old.type}, exp.column(OLD, quoted=True)
    asked = map_columns(
        condition.condition,
        lambda c: (
            exp.Dot(this=before.copy(), expression=exp.to_identifier(c.name, quoted=True)) if c.name in members else c
        ),
    )
    return replace(condition, condition=exp.And(this=exp.paren(condition.condition), expression=exp.paren(asked)))


def without_old(grant: Grant, id_: str) -> Grant:
    """Return the grant without the old rows (`_old`) of `id_`."""
    return replace(grant, hidden={**grant.hidden, id_: grant.hidden.get(id_, frozenset()) | {OLD}})


def columns_read(plan: Node) -> dict[str, frozenset[str]]:
    """Return the columns that a plan reads of each relation, including keys."""
    found: dict[str, frozenset[str]] = {}
    top = Project(prune(plan), ())
    for node in top.walk():
        for scan in (i for i in node.inputs if isinstance(i, Scan)):
            used = (
                {c for e in node.expressions for c in columns_of(e)}
                if isinstance(node, Project) and node.items
                else scan.schema.names
            )
            found[scan.relation] = found.get(scan.relation, frozenset()) | frozenset(used)
    return found
