"""A statement with the scope of its names: the columns of its queries and the relations that they read.

In: a statement's tokens, the known relations. Out: a `ScopedStatement` that resolves names. The rules are those of
`belvedere.lang.names.scope`, applied to tokens, because the statement may be broken. An unresolved name has no symbol.
`tests/editor/test_agreement.py` compares both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.function_help import function_names
from belvedere.editor.known_relations import Known, KnownRelation
from belvedere.editor.query_blocks import QuerySource, QueryTokens, SelectItem, read_block
from belvedere.editor.statement_heads import Head, StatementForm, read_head
from belvedere.editor.symbols import (
    KnownColumn,
    Symbol,
    columns,
    field_symbol,
    fields,
    folded_home,
    member,
    relation_symbol,
)
from belvedere.editor.tolerant_reading import ReadText, StatementRange
from belvedere.lang.names.resolve import has_fields
from belvedere.plan.operators.emit import PTIME, UNDO, VERSION
from belvedere.schema import find_named
from belvedere.syntax.forms.windowing_calls import FUNCTIONS as WINDOWS

OWNER = ("@", "_", "this")
LATER = ("GROUP BY", "HAVING", "ORDER BY", "QUALIFY", "SELECT", "WHERE")
"""Clauses that may read the names of SELECT's items."""


@dataclass
class ScopedStatement:
    """A statement with the scope of its names. Columns of `base` need no alias; `owner` is the relation that `_` and
    `@` refer to."""

    read: ReadText
    range: StatementRange
    head: Head
    block: QueryTokens
    known: Known
    base: KnownRelation | None = None
    owner: KnownRelation | None = None
    _columns: dict[int, list[KnownColumn]] = field(default_factory=dict)
    _of_sources: dict[int, list[KnownColumn]] = field(default_factory=dict)
    _steps: dict[int, list[tuple[Symbol, KnownRelation]]] = field(default_factory=dict)
    _asked: set[int] = field(default_factory=set)

    def text_of(self, i: int) -> str:
        """Return the name in a token."""
        return self.read.tokens[i].text

    # -- columns ------------------------------------------------------------------------------------------------------

    def columns_of(self, source: QuerySource) -> list[KnownColumn]:
        """Return the columns of an item of FROM, with those of its window."""
        if source.at not in self._of_sources:
            self._of_sources[source.at] = []  # items of a broken query may refer to each other in a cycle
            self._of_sources[source.at] = self._read_columns(source)
        return self._of_sources[source.at]

    def _read_columns(self, source: QuerySource) -> list[KnownColumn]:
        added = [
            KnownColumn(n, Symbol("window", "", "", n), pa.timestamp("us", "UTC"), False) for n in self._windows(source)
        ]
        return self._renamed([*self._own_columns(source), *added], source.names)

    def _renamed(self, found: list[KnownColumn], names: list[int]) -> list[KnownColumn]:
        """Return the columns with the names of a column list. There are at least as many columns as names."""
        shown = [c for c in found if not c.hidden][: len(names)]
        columns = [c or KnownColumn("", Symbol("", "", "", "")) for _, c in zip_longest(names, shown)]
        made = [
            replace(c, name=self.text_of(i), symbol=self.name_symbol("column", i))
            for c, i in zip(columns, names, strict=True)
        ]
        return [*made, *(c for c in found if c not in shown)]

    def _own_columns(self, source: QuerySource) -> list[KnownColumn]:
        if source.inner is not None:
            return self.given(source.inner)
        if len(source.path) == 1 and (cte := self.cte(source.path[0])) is not None:
            given_names = next((b.named[cte[0]] for b in self.block.walk() if cte[0] in b.named), [])
            return self._renamed(self.given(cte[1]) if cte[1] is not None else [], given_names)
        if source.array:
            names = self.resolve(self.block.innermost(source.at), source.array)
            of, type_, _ = names[-1] if len(names) == len(source.array) else (Symbol("field", "", "", ""), None, True)
            return [KnownColumn(f.name, field_symbol(of, f.name), f.type, f.nullable) for f in fields(type_)]
        found = columns(self.relation_of(source))
        if source.function == "LATE" and found:
            late = columns(self.known.find(f"LATE({'.'.join(map(self.text_of, source.path))})"))
            found += [c for c in late if find_named(found, c.name) is None]
        return found

    def _windows(self, source: QuerySource) -> tuple[str, ...]:
        return ("wstart", "wend", "window_start", "window_end", "window_time") if source.function in WINDOWS else ()

    def given(self, block: QueryTokens) -> list[KnownColumn]:
        """Return the output columns of a query."""
        block = block.giving
        if block.lo in self._columns:
            return self._columns[block.lo]
        found: list[KnownColumn] = []
        self._columns[block.lo] = found  # a query that refers to itself has the columns found so far
        for item in block.items:
            found += self._of_item(block, item)
        if not block.items:
            found += [c for s in block.sources for c in self.columns_of(s) if not c.hidden]
        if self._emits(block):
            found += [KnownColumn(c, Symbol("window", "", "", c)) for c in (UNDO, PTIME, VERSION)]
        return found

    def _emits(self, block: QueryTokens) -> bool:
        """Return whether a query emits a changelog: it contains EMIT STREAM."""
        words = (i for i in range(block.lo, block.hi - 1) if self.text_of(i).upper() == "EMIT")
        return any(self.text_of(i + 1).upper() == "STREAM" and self.block.innermost(i) is block for i in words)

    def _of_item(self, block: QueryTokens, item: SelectItem) -> Iterator[KnownColumn]:
        if item.star:
            qualifier = self.text_of(item.lo).casefold() if item.hi - item.lo > 1 else None
            sources = [s for s in block.sources if qualifier is None or self.alias_of(s).casefold() == qualifier]
            yield from (c for s in sources for c in self.columns_of(s) if not c.hidden)
        elif item.name is not None:
            name = self.text_of(item.name)
            type_, nullable = self._type_of(block, item)
            end = item.name - 1 if item.aliased else item.hi - 1
            end -= self.read.tokens[end].token_type == T.ALIAS and end > item.lo
            text = self.read.text[self.read.tokens[item.lo].start : self.read.tokens[max(end, item.lo)].end + 1]
            yield KnownColumn(name, self.item_symbol(block, item.name), type_, nullable, text)

    def item_symbol(self, block: QueryTokens, i: int) -> Symbol:
        """Return the symbol of a query item's name: a column of the view that the query defines, or one of the query
        only."""
        name, view = self.text_of(i).casefold(), None
        if self.head.form is StatementForm.VIEW and self.head.path and self.block.giving is block:
            view = self.known.find(self.text_of(self.head.path[0]))
        return Symbol("column", *folded_home(view), name) if view is not None else self.name_symbol("column", i)

    def _type_of(self, block: QueryTokens, item: SelectItem) -> tuple[pa.DataType | None, bool]:
        """Return the type of an item that is a column, and whether it may be NULL. Items of a broken query may refer to
        each other in a cycle."""
        if not item.bare or item.lo in self._asked:
            return None, True
        self._asked.add(item.lo)
        found = self.resolve(block, item.bare)[-1:]
        self._asked.discard(item.lo)
        return (found[0][1], found[0][2]) if found else (None, True)

    def name_symbol(self, kind: str, i: int) -> Symbol:
        """Return the symbol of a name that is local to this statement."""
        return Symbol(kind, self.known.file, f"@{self.read.tokens[i].start}", self.text_of(i).casefold())

    # -- names --------------------------------------------------------------------------------------------------------

    def alias_of(self, source: QuerySource) -> str:
        """Return the name of an item of FROM."""
        return (
            self.text_of(source.alias)
            if source.alias is not None
            else self.text_of(source.path[-1])
            if source.path
            else ""
        )

    def cte(self, i: int) -> tuple[int, QueryTokens | None] | None:
        """Return the WITH query above that a name refers to. Inside its own query the name is known only with
        RECURSIVE."""
        name = self.text_of(i).casefold()
        known = (c for b in self.enclosing(self.block.innermost(i)) for c in b.ctes if c[0] < i)
        return next((c for c in known if self.text_of(c[0]).casefold() == name and not self._is_within(i, c)), None)

    def _is_within(self, i: int, cte: tuple[int, QueryTokens | None]) -> bool:
        recursive = any(self.text_of(j).upper() == "RECURSIVE" for j in range(self.head.body, cte[0]))
        return not recursive and cte[1] is not None and cte[1].lo <= i < cte[1].hi

    def enclosing(self, block: QueryTokens | None) -> Iterator[QueryTokens]:
        """Yield a block and those around it."""
        while block is not None:
            yield block
            block = block.parent

    def relation_of(self, source: QuerySource) -> KnownRelation | None:
        """Return the relation at the end of a FROM item's path."""
        found = self.steps(source)
        return found[-1][1] if found and len(found) == len(source.path) else None

    def steps(self, source: QuerySource) -> list[tuple[Symbol, KnownRelation]]:
        """Return the symbols of the names in a FROM item, up to the first unresolved name."""
        if source.at not in self._steps:
            self._steps[source.at] = []
            self._steps[source.at] = self._read_steps(source.path)
        return self._steps[source.at]

    def _read_steps(self, path: list[int]) -> list[tuple[Symbol, KnownRelation]]:
        if not path or (len(path) == 1 and self.cte(path[0]) is not None):
            return []
        first, rest, found = self._first(path)
        for i in rest:
            link = first.link(self.text_of(i)) if first is not None else None
            target = self.known.find(link[1]) if link is not None else None
            if first is None or target is None:
                break
            found.append((member(first, self.text_of(i), "relationship"), target))
            first = target
        return found

    def _first(self, path: list[int]) -> tuple[KnownRelation | None, list[int], list[tuple[Symbol, KnownRelation]]]:
        name = self.text_of(path[0])
        if name in OWNER and self.owner is not None:
            return self.owner, path[1:], [(Symbol("owner", "", "", "_"), self.owner)]
        if len(path) > 1 and (aliased := self.aliased(self.block.innermost(path[0]), name, path[0])) is not None:
            relation = self.relation_of(aliased)
            return relation, path[1:], [(self.alias_symbol(aliased), relation)] if relation is not None else []
        start = self.range.start
        if (relation := self.known.find(name, start)) is not None:
            return relation, path[1:], [(relation_symbol(relation), relation)]
        for n in range(2, len(path) + 1):
            if (relation := self.known.find(".".join(self.text_of(i) for i in path[:n]), start)) is not None:
                namespace = Symbol("namespace", self.known.file, "", name.casefold())
                return relation, path[n:], [*[(namespace, relation)] * (n - 1), (relation_symbol(relation), relation)]
        return None, [], []

    def aliased(self, block: QueryTokens, name: str, but: int = -1) -> QuerySource | None:
        """Return the item of FROM with a name, in a block or those around it."""
        folded = name.casefold()
        sources = (s for b in self.enclosing(block) for s in b.sources)
        return next((s for s in sources if self.alias_of(s).casefold() == folded and but not in s.path), None)

    def alias_symbol(self, source: QuerySource) -> Symbol:
        """Return the symbol of an alias; a relation without an alias is known by its own name."""
        if source.alias is not None:
            return self.name_symbol("alias", source.alias)
        steps = self.steps(source)
        if steps and len(steps) == len(source.path):
            return steps[-1][0]
        return self.cte_symbol(source) or Symbol(
            "alias", self.known.file, f"@{source.at}", self.alias_of(source).casefold()
        )

    def cte_symbol(self, source: QuerySource) -> Symbol | None:
        """Return the symbol of a WITH query's name."""
        cte = self.cte(source.path[0]) if len(source.path) == 1 else None
        return self.name_symbol("alias", cte[0]) if cte is not None else None

    def resolve(self, block: QueryTokens, path: list[int]) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        """Return the meanings of the names of a path in an expression, up to the first unresolved name: symbol, type,
        nullable."""
        first = self.text_of(path[0])
        if self._is_aggregated(path):
            own = path[1:] if first in OWNER else path
            said = [(Symbol("owner", "", "", "_"), None, False)][: len(path) - len(own)]
            return [*said, *self._members(columns(self.owner), self.owner, own, follows=True)]
        if len(path) > 1:
            source = self.aliased(block, first)
            if first in OWNER and self.owner is not None:
                return [
                    (Symbol("owner", "", "", "_"), None, False),
                    *self._members(columns(self.owner), self.owner, path[1:]),
                ]
            if source is not None:
                rest = self._members(self.columns_of(source), self.relation_of(source), path[1:])
                return [(self.alias_symbol(source), None, False), *rest]
        linked = (r for s in block.sources if (r := self.relation_of(s)) is not None and r.link(first) is not None)
        owner = next(linked, self.base) if len(path) > 1 else self.base
        return self._members(self._visible(block, first, path[0]), owner, path)

    def _visible(self, block: QueryTokens, name: str, i: int) -> list[KnownColumn]:
        """Return the columns with a name in the nearest block that has one. ORDER BY and HAVING search those of SELECT
        first."""
        folded = name.casefold()
        for b in self.enclosing(block):
            own = (
                [c for item in b.items if not item.star for c in self._named(b, item, folded)]
                if b.clause_at(i) in LATER
                else []
            )
            windowed = [s for s in b.sources if i in s.window]
            read = [c for s in windowed or b.sources for c in self.columns_of(s) if c.name.casefold() == folded]
            if found := (own + read if b.clause_at(i) in ("ORDER BY", "HAVING") else read + own):
                return found[:1]
        return [c for c in columns(self.base) if c.name.casefold() == folded] if self.base is not None else []

    def _named(self, block: QueryTokens, item: SelectItem, folded: str) -> Iterator[KnownColumn]:
        if item.name is not None and item.aliased and self.text_of(item.name).casefold() == folded:
            yield from self._of_item(block, item)

    def _is_aggregated(self, path: list[int]) -> bool:
        """Return whether a path is the argument of an aggregate in the definition of a column. Its names are then
        resolved as relationships first."""
        tokens, before, block = self.read.tokens, path[0] - 1, self.block.innermost(path[0])
        if self.owner is None or block.sources or block.items:
            return False
        before -= tokens[before].token_type == T.DISTINCT
        called = tokens[before].token_type == T.L_PAREN and self.read.close(before, self.range.hi) == path[-1] + 1
        return called and function_names().get(self.text_of(before - 1).casefold()) == "aggregate"

    def _members(
        self, found: list[KnownColumn], relation: KnownRelation | None, path: list[int], *, follows: bool = False
    ) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        """Return the columns, relationships and fields along a path.

        A relationship has priority over a column without fields; with `follows`, over any column.
        """
        if not path:
            return []
        name = self.text_of(path[0])
        column = find_named(found, name)
        target = self.known.target(relation, name) if relation is not None else None
        far = column is None or follows or (len(path) > 1 and column.type is not None and not has_fields(column.type))
        if relation is not None and target is not None and far:
            rest = self._members(columns(target), target, path[1:], follows=follows)
            return [(member(relation, name, "relationship"), None, True), *rest]
        if column is None:
            return []
        return [(column.symbol, column.type, column.nullable), *self._fields(column.type, path[1:], column.symbol)]

    def _fields(
        self, type_: pa.DataType | None, path: list[int], of: Symbol
    ) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        found: list[tuple[Symbol, pa.DataType | None, bool]] = []
        for i in path:
            field_ = find_named(fields(type_), self.text_of(i))
            if field_ is None:
                break
            of = field_symbol(of, field_.name)
            found.append((of, field_.type, True))
            type_ = field_.type
        return found


def statement_of(read: ReadText, found: StatementRange, known: Known) -> ScopedStatement:
    """Return a statement with resolvable names."""
    head = read_head(read, found.lo, found.hi)
    body = min(head.body, found.hi)
    made = ScopedStatement(read, found, head, read_block(read, body, found.hi), known)
    if head.form is StatementForm.MEMBER:
        steps = made.steps(QuerySource(head.path[0], list(head.path[:-1])))
        made.owner = made.base = steps[-1][1] if len(steps) == len(head.path) - 1 else None
    elif head.form in (StatementForm.INPUT, StatementForm.IMPORT) and head.name is not None:
        made.base = known.find(read.tokens[head.name].text, found.end + 1)
    return made
