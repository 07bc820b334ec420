"""Names inside a query: the column and FROM item that each name means.

In: the FROM items of a query and of those around it. Out: internal column names `alias.column`, all distinct within a
query and its subqueries. The module does not depend on plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions.other_systems import OTHER_NAMES
from belvedere.functions.spark_types import Typed
from belvedere.lang.names.definitions import NamedRelation
from belvedere.schema import find_named
from belvedere.syntax.wording import did_you_mean

REPEATED = "~again"
"""Separator between the name of an output and a number, if an earlier output has the same name."""
SAME = "="
"""Suffix after that number if it is the same column; the name then means both."""


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column as named in a script, and the plan's column for it."""

    name: str
    internal: str
    typed: Typed
    hidden: bool = False
    doc: str | None = None
    same: bool = False
    """Whether it repeats an earlier column of the same name."""
    sealed: bool = False
    """Whether it is private to another script."""


@dataclass(frozen=True)
class FromItem:
    """One FROM item. Its relationships are those of `relation`; parts of a path without alias are not `addressable`."""

    alias: str
    columns: tuple[SourceColumn, ...]
    relation: NamedRelation | None = None
    addressable: bool = True
    bare: bool = True
    """Whether its columns may be named without the alias."""
    table: str | None = None
    """Table in a windowing call without alias. The call also has this name if no other item has it."""
    is_named: bool = False
    """Whether FROM names the relation itself, without a path to it."""
    rows_of: NamedRelation | None = None
    """Relation whose rows a subquery selects; paths may also begin at them."""
    behind: Mapping[str, str] = field(default_factory=dict)
    """Names of that relation's columns here."""

    @property
    def starts(self) -> NamedRelation | None:
        """Return the relation whose relationships begin here."""
        return self.relation or self.rows_of

    def find(self, name: str) -> SourceColumn | None:
        """Return a column: first an exact match, then one that differs in case only."""
        return find_named(self.columns, name)

    def refuse_repeated(self, column: SourceColumn, span: Span) -> None:
        """Raise B2003 if a name means several columns of the item."""
        if sum(c.name == column.name for c in self.columns if not c.hidden and not c.same) > 1:
            owner = f"`{self.alias}`" if self.alias else "a subquery"
            hint = "rename them with AS in the select list"
            raise fail("B2003", f"{owner} has more than one column `{column.name}`", span=span, hint=hint)

    @property
    def shown(self) -> list[SourceColumn]:
        """Return the visible columns."""
        return [c for c in self.columns if not c.hidden and not c.sealed]

    @property
    def names(self) -> list[str]:
        """Return the visible columns' names."""
        return [c.name for c in self.shown]

    def seen(self, name: str) -> SourceColumn | None:
        """Return the column that a query means by a name; None for one that is private to another script."""
        return find_named([c for c in self.columns if not c.sealed], name)


@dataclass(frozen=True)
class MergedColumn:
    """A column that USING or NATURAL merged from those of the same name in `sources`; other FROM items have
    their own."""

    column: SourceColumn
    sources: tuple[FromItem, ...]
    before: FromItem
    """First FROM item of the join: `*` lists the column before those of this item."""

    def named(self, name: str) -> bool:
        """Return whether a query means it by the name."""
        return self.column.name.casefold() == name.casefold()

    def covers(self, source: FromItem) -> bool:
        """Return whether it replaces a column of the FROM item."""
        return any(s is source for s in self.sources)


@dataclass
class InternalAliases:
    """Generates internal aliases, unique per compiled query."""

    taken: set[str] = field(default_factory=set)

    def fresh(self, alias: str) -> str:
        """Return `alias`, or the first unused name of `alias_2`, `alias_3` ..."""
        name, n = alias, 1
        while name.casefold() in self.taken:
            n += 1
            name = f"{alias}_{n}"
        self.taken.add(name.casefold())
        return name


@dataclass
class Scope:
    """The FROM items of one query, and the query around it. `used` collects the outer columns that it reads."""

    file: str
    sources: list[FromItem] = field(default_factory=list)
    merged: list[MergedColumn] = field(default_factory=list)
    """Columns merged by USING or NATURAL, those of the last join first."""
    outer: Scope | None = None
    used: dict[str, SourceColumn] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    """Aliases of the select list, which some clauses may name."""

    def aliased(self, alias: str) -> FromItem | None:
        """Return the FROM item with this explicit alias, in this query only."""
        folded = alias.casefold()
        return next((s for s in self.sources if s.addressable and s.alias.casefold() == folded), None)

    def source(self, alias: str) -> FromItem | None:
        """Return the FROM item that an alias means, in this query only."""
        windowed = [s for s in self.sources if s.table is not None and s.table.casefold() == alias.casefold()]
        return self.aliased(alias) or (windowed[0] if len(windowed) == 1 else None)

    def reachable(self, alias: str) -> tuple[FromItem, bool] | None:
        """Return the FROM item of an alias in this query or in one around it, and whether it is an outer one."""
        found = self.source(alias)
        if found is not None:
            return found, False
        outer = self.outer.reachable(alias) if self.outer is not None else None
        return (outer[0], True) if outer is not None else None

    def hand_on(self, owner: FromItem, columns: Iterable[SourceColumn]) -> None:
        """Record that columns of an outer query's FROM item are read; queries in between pass them on."""
        found = {c.internal: c for c in columns}
        scope: Scope | None = self
        while scope is not None and not any(s is owner for s in scope.sources):
            scope.used.update(found)
            scope = scope.outer

    def columns(self) -> Iterator[SourceColumn]:
        """Yield all columns of this query's FROM items."""
        for s in self.sources:
            yield from s.columns

    def merge(self, columns: Sequence[SourceColumn], lefts: Sequence[FromItem], rights: Sequence[FromItem]) -> None:
        """Merge the columns that both sides of a join have by each name of `columns`."""
        made = []
        for column in columns:
            known = next((m for m in self.merged if m.named(column.name)), None)
            owners = known.sources if known is not None else _owners(lefts, column.name)
            made.append(MergedColumn(column, (*owners, *_owners(rights, column.name)), lefts[0]))
            self.merged = [m for m in self.merged if m is not known]
        self.merged = made + self.merged

    def all_columns(self) -> list[SourceColumn]:
        """Return the columns of `*`: merged ones precede all others of the joined items."""
        found = []
        for source in self.sources:
            found += [m.column for m in self.merged if m.before is source]
            if source.addressable and source.bare:
                covered = [m for m in self.merged if m.covers(source)]
                found += [c for c in source.shown if not any(m.named(c.name) for m in covered)]
        return found

    def columns_of(self, source: FromItem) -> list[SourceColumn]:
        """Return the columns of `source.*`: first those of USING, and of these first the ones that `*` does not show,
        as in Spark."""
        shared = [(c, m) for m in self.merged if m.covers(source) for c in source.shown if m.named(c.name)]
        behind = [c for c, m in shared if c.internal != m.column.internal]
        keys = [*behind, *(c for c, _ in shared if c not in behind)]
        return [*keys, *(c for c in source.shown if c not in keys)]

    def resolve(self, parts: Sequence[exp.Identifier], span: Span) -> tuple[SourceColumn, Sequence[exp.Identifier]]:
        """Return the column that a dotted name begins with, and the fields that remain of it. Raises an error if there
        is none."""
        found = self._find(parts, span)
        if found is not None:
            return found
        passed, outer = [self], self.outer
        while outer is not None:
            found = outer._find(parts, span)
            if found is not None:
                for scope in passed:  # queries in between pass the column on
                    scope.used[found[0].internal] = found[0]
                return found
            passed.append(outer)
            outer = outer.outer
        raise self._unknown(parts, span)

    def _find(
        self, parts: Sequence[exp.Identifier], span: Span
    ) -> tuple[SourceColumn, Sequence[exp.Identifier]] | None:
        if len(parts) > 1:
            source = self.source(parts[0].name)
            if source is not None:
                column = source.seen(parts[1].name)
                if column is not None:
                    source.refuse_repeated(column, span)
                    return column, parts[2:]
                if not any(s.bare and s.seen(parts[0].name) for s in self.sources):
                    raise self._unknown_in(source, parts[1:], span)
        found = self._bare(parts[0].name, span)
        return None if found is None else (found, parts[1:])

    def _bare(self, name: str, span: Span) -> SourceColumn | None:
        merged = [m for m in self.merged if m.named(name)]
        sources = [s for s in self.sources if s.addressable and s.bare and not any(m.covers(s) for m in merged)]
        hits = [(s, c) for s in sources if (c := s.seen(name)) is not None]
        shown = [*((m.sources[0], m.column) for m in merged), *(h for h in hits if not h[1].hidden)] or hits
        if len(shown) > 1:
            owners = " and ".join(f"`{s.alias}`" if s.alias else "a subquery" for s, _ in shown)
            hint = "write " + " or ".join(f"`{s.alias}.{c.name}`" for s, c in shown)
            if not all(s.alias for s, _ in shown):
                hint = "give each subquery of FROM an alias, and qualify the column with it"
            raise fail("B2003", f"column `{name}` is in {owners}", span=span, hint=hint)
        for source, column in shown if not merged else ():
            source.refuse_repeated(column, span)
        return shown[0][1] if shown else None

    def _unknown_in(self, source: FromItem, parts: Sequence[exp.Identifier], span: Span) -> Exception:
        name = parts[0].name
        if source.starts is not None and source.starts.relationship(name) is not None:
            joined = f"`JOIN {source.alias}.{name} x`"
            hint = f"name one of its columns, join it ({joined}), or aggregate over it"
            if len(parts) > 1:  # a value of the outer query, whose own names were resolved before
                hint = f"join it in this query's FROM ({joined}), and name `x.{parts[1].name}`"
            return fail("B4003", f"`{source.alias}.{name}` is a relationship, not a column", span=span, hint=hint)
        if source.find(name) is not None:
            raise private_column(name, span)
        return fail(
            "B2002", f"`{source.alias}` has no column `{name}`", span=span, hint=did_you_mean(name, source.names)
        )

    def _unknown(self, parts: Sequence[exp.Identifier], span: Span) -> Exception:
        name = parts[0].name
        everything = [n for s in self.sources if s.addressable for n in s.names]
        if len(parts) > 1:
            aliases = [s.alias for s in self.sources if s.addressable]
            hint = did_you_mean(name, aliases + everything)
            return fail("B2004", f"`{name}` is not a table of this query", span=span, hint=hint)
        if any(s.addressable and s.bare and s.find(name) is not None for s in self.sources):
            return private_column(name, span)
        hint = OTHER_NAMES.get(name.upper()) or did_you_mean(name, [*everything, *self.named])
        return fail("B2002", f"column `{name}` is not defined", span=span, hint=hint)


def _owners(sources: Sequence[FromItem], name: str) -> list[FromItem]:
    return [s for s in sources if s.seen(name) is not None]


def private_column(name: str, span: Span | None) -> BelvedereError:
    """Return the error for a private column of another script."""
    hint = "remove the leading underscore in that script, or compute the column here"
    return fail("B2002", f"column `{name}` is private to the script that defines it", span=span, hint=hint)


def dotted(parts: Iterable[exp.Identifier]) -> str:
    """Return a path as written."""
    return ".".join(p.name for p in parts)


def name_parts(expr: exp.Expr | None) -> tuple[exp.Identifier, ...]:
    """Return the identifiers of a column and its fields, outermost first; none for any other expression."""
    base, *fields = expr.flatten(unnest=False) if isinstance(expr, exp.Dot) else (expr,)
    parts = [*base.parts, *fields] if isinstance(base, exp.Column) else []
    names = tuple(p for p in parts if isinstance(p, exp.Identifier))
    return names if len(names) == len(parts) else ()
