"""A statement with what its names may mean: the columns of its queries, the relations that they read.

In: a statement's tokens, what is known of relations. Out: a `ScopedStatement` that resolves names. The rules are those of
`belvedere.lang.names.scope`, over tokens, so that a statement may be broken: a name that means nothing has no symbol.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.known_relations import Known, KnownRelation
from belvedere.editor.query_blocks import QuerySource, QueryTokens, SelectItem, read_block
from belvedere.editor.statement_heads import Head, StatementForm, read_head
from belvedere.editor.symbols import KnownColumn, Symbol, columns, fields, folded_home, member, relation_symbol
from belvedere.editor.tolerant_reading import ReadText, StatementRange
from belvedere.schema import find_named

OWNER = ("@", "_", "this")
LATER = ("GROUP BY", "HAVING", "ORDER BY", "QUALIFY", "SELECT", "WHERE")
"""Where the names of SELECT's items may be read."""


@dataclass
class ScopedStatement:
    """A statement with what its names may mean. `base` is the relation whose columns need no alias, `owner` the one behind `_` and `@`."""

    read: ReadText
    range: StatementRange
    head: Head
    block: QueryTokens
    known: Known
    base: KnownRelation | None = None
    owner: KnownRelation | None = None
    _columns: dict[int, list[KnownColumn]] = field(default_factory=dict)
    _of_sources: dict[int, list[KnownColumn]] = field(default_factory=dict)
    _asked: set[int] = field(default_factory=set)

    def text_of(self, i: int) -> str:
        """The name that a token is."""
        return self.read.tokens[i].text

    # -- columns ------------------------------------------------------------------------------------------------------

    def columns_of(self, source: QuerySource) -> list[KnownColumn]:
        """The columns of an item of FROM, with those of its window."""
        if source.at not in self._of_sources:
            self._of_sources[source.at] = self._read_columns(source)
        return self._of_sources[source.at]

    def _read_columns(self, source: QuerySource) -> list[KnownColumn]:
        added = [KnownColumn(n, Symbol("window", "", "", n), pa.timestamp("us", "UTC"), False) for n in self._windows(source)]
        if source.inner is not None:
            return [*self.given(source.inner), *added]
        if len(source.path) == 1 and (cte := self.cte(source.path[0])) is not None:
            return [*self.given(cte[1]), *added] if cte[1] is not None else added
        relation = self.relation_of(source)
        return [*columns(relation), *added] if relation is not None else added

    def _windows(self, source: QuerySource) -> tuple[str, ...]:
        if source.function in ("", "LATE", "TABLE"):
            return ()
        return ("wstart", "wend", "window_start", "window_end", "window_time")

    def given(self, block: QueryTokens) -> list[KnownColumn]:
        """The columns that a query gives."""
        block = block.giving
        if block.lo in self._columns:
            return self._columns[block.lo]
        found: list[KnownColumn] = []
        self._columns[block.lo] = found  # a query that names itself has what was found so far
        for item in block.items:
            found += self._of_item(block, item)
        if not block.items:
            found += [c for s in block.sources for c in self.columns_of(s) if not c.hidden]
        return found

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
        """What the name of a query's item means: a column of the view that the query defines, or one of the query alone."""
        name, view = self.text_of(i).casefold(), None
        if self.head.form is StatementForm.VIEW and self.head.path and self.block.giving is block:
            view = self.known.find(self.text_of(self.head.path[0]))
        of = folded_home(view) if view is not None else (self.known.file, f"@{self.read.tokens[i].start}")
        return Symbol("column", *of, name)

    def _type_of(self, block: QueryTokens, item: SelectItem) -> tuple[pa.DataType | None, bool]:
        """The type of an item that is a column, and whether it may be NULL. Items of a broken query may name each other in a circle."""
        if not item.bare or item.lo in self._asked:
            return None, True
        self._asked.add(item.lo)
        found = self.resolve(block, item.bare)[-1:]
        self._asked.discard(item.lo)
        return (found[0][1], found[0][2]) if found else (None, True)

    # -- names --------------------------------------------------------------------------------------------------------

    def alias_of(self, source: QuerySource) -> str:
        """The name by which an item of FROM is called."""
        return self.text_of(source.alias) if source.alias is not None else self.text_of(source.path[-1]) if source.path else ""

    def cte(self, i: int) -> tuple[int, QueryTokens | None] | None:
        """The WITH that a name means: one above it. Its own query knows it only where it is recursive."""
        name = self.text_of(i).casefold()
        known = (c for b in self.enclosing(self.block.innermost(i)) for c in b.ctes if c[0] < i)
        return next((c for c in known if self.text_of(c[0]).casefold() == name and not self._is_within(i, c)), None)

    def _is_within(self, i: int, cte: tuple[int, QueryTokens | None]) -> bool:
        recursive = any(self.text_of(j).upper() == "RECURSIVE" for j in range(self.head.body, cte[0]))
        return not recursive and cte[1] is not None and cte[1].lo <= i < cte[1].hi

    def enclosing(self, block: QueryTokens | None) -> Iterator[QueryTokens]:
        """A block and those around it."""
        while block is not None:
            yield block
            block = block.parent

    def relation_of(self, source: QuerySource) -> KnownRelation | None:
        """The relation that the path of an item of FROM leads to."""
        found = self.steps(source)
        return found[-1][1] if found and len(found) == len(source.path) else None

    def steps(self, source: QuerySource) -> list[tuple[Symbol, KnownRelation]]:
        """What each name of an item of FROM means, as far as it is known."""
        path = source.path
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
        """The item of FROM that is called so, in a block or those around it."""
        folded = name.casefold()
        sources = (s for b in self.enclosing(block) for s in b.sources)
        return next((s for s in sources if self.alias_of(s).casefold() == folded and but not in s.path), None)

    def alias_symbol(self, source: QuerySource) -> Symbol:
        """What an alias means; a relation without one is called by its own name."""
        if source.alias is not None:
            place = self.read.tokens[source.alias].start
            return Symbol("alias", self.known.file, f"@{place}", self.text_of(source.alias).casefold())
        steps = self.steps(source)
        if steps and len(steps) == len(source.path):
            return steps[-1][0]
        return self.cte_symbol(source) or Symbol("alias", self.known.file, f"@{source.at}", self.alias_of(source).casefold())

    def cte_symbol(self, source: QuerySource) -> Symbol | None:
        """What the name of a query of WITH means."""
        cte = self.cte(source.path[0]) if len(source.path) == 1 else None
        return (
            Symbol("alias", self.known.file, f"@{self.read.tokens[cte[0]].start}", self.text_of(cte[0]).casefold())
            if cte
            else None
        )

    def resolve(self, block: QueryTokens, path: list[int]) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        """What the names of a path in an expression mean, as far as they are known: symbol, type, nullable."""
        first = self.text_of(path[0])
        if len(path) > 1:
            source = self.aliased(block, first)
            if first in OWNER and self.owner is not None:
                return [(Symbol("owner", "", "", "_"), None, False), *self._members(columns(self.owner), self.owner, path[1:])]
            if source is not None:
                rest = self._members(self.columns_of(source), self.relation_of(source), path[1:])
                return [(self.alias_symbol(source), None, False), *rest]
        return self._members(self._visible(block, first, path[0]), self.base, path)

    def _visible(self, block: QueryTokens, name: str, i: int) -> list[KnownColumn]:
        """The columns of that name, of the nearest block that has one; ORDER BY and HAVING see those of SELECT first."""
        folded = name.casefold()
        for b in self.enclosing(block):
            own = (
                [c for item in b.items if not item.star for c in self._named(b, item, folded)]
                if b.clause_at(i) in LATER
                else []
            )
            read = [c for s in b.sources for c in self.columns_of(s) if c.name.casefold() == folded]
            if found := (own + read if b.clause_at(i) in ("ORDER BY", "HAVING") else read + own):
                return found[:1]
        return [c for c in columns(self.base) if c.name.casefold() == folded] if self.base is not None else []

    def _named(self, block: QueryTokens, item: SelectItem, folded: str) -> Iterator[KnownColumn]:
        if item.name is not None and item.aliased and self.text_of(item.name).casefold() == folded:
            yield from self._of_item(block, item)

    def _members(
        self, found: list[KnownColumn], relation: KnownRelation | None, path: list[int]
    ) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        """Columns, relationships and fields along a path."""
        if not path:
            return []
        name = self.text_of(path[0])
        column = next((c for c in found if c.name.casefold() == name.casefold()), None)
        if column is not None:
            return [(column.symbol, column.type, column.nullable), *self._fields(column.type, path[1:], column.symbol)]
        target = self.known.target(relation, name) if relation is not None else None
        if relation is None or target is None:
            return []
        return [(member(relation, name, "relationship"), None, True), *self._members(columns(target), target, path[1:])]

    def _fields(self, type_: pa.DataType | None, path: list[int], of: Symbol) -> list[tuple[Symbol, pa.DataType | None, bool]]:
        found: list[tuple[Symbol, pa.DataType | None, bool]] = []
        for i in path:
            field_ = find_named(fields(type_), self.text_of(i))
            if field_ is None:
                break
            of = Symbol("field", of.file, f"{of.of}.{of.name}", field_.name.casefold())
            found.append((of, field_.type, True))
            type_ = field_.type
        return found


def statement_of(read: ReadText, found: StatementRange, known: Known) -> ScopedStatement:
    """A statement, ready to be asked."""
    head = read_head(read, found.lo, found.hi)
    body = min(head.body, found.hi)
    made = ScopedStatement(read, found, head, read_block(read, body, found.hi), known)
    if head.form is StatementForm.MEMBER:
        steps = made.steps(QuerySource(head.path[0], list(head.path[:-1])))
        made.owner = made.base = steps[-1][1] if len(steps) == len(head.path) - 1 else None
    elif head.form in (StatementForm.INPUT, StatementForm.IMPORT) and head.name is not None:
        made.base = known.find(read.tokens[head.name].text, found.end + 1)
    return made
