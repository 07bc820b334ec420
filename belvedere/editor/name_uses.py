"""Uses and definitions of names in a statement.

In: a statement. Out: `Use`s: a place, the `Symbol` that it names, and whether it defines the symbol. An unresolved name
has no use.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping

from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.query_blocks import QuerySource, QueryTokens
from belvedere.editor.statement_heads import StatementForm
from belvedere.editor.statements import ScopedStatement
from belvedere.editor.symbols import Symbol, Use, folded_home, member, relation_symbol
from belvedere.editor.tolerant_reading import is_called, is_name, is_word


def uses_of(statement: ScopedStatement) -> Iterator[Use]:
    """Yield all resolved names of a statement."""
    return _Uses(statement).all()


class _Uses:
    def __init__(self, statement: ScopedStatement):
        self.statement, self.read, self.head = statement, statement.read, statement.head
        self.block, self.known = statement.block, statement.known

    def all(self) -> Iterator[Use]:
        """Yield all resolved names of the statement."""
        yield from self._head_uses()
        from_paths = {s.path[0]: s for b in self.block.walk() for s in b.sources if s.path}
        made = {
            s.alias: self.statement.alias_symbol(s) for b in self.block.walk() for s in b.sources if s.alias is not None
        }
        for b in self.block.walk():
            made |= {i: self.statement.name_symbol("alias", i) for i, _ in b.ctes}
            made |= {i: self.statement.name_symbol("column", i) for s in b.sources for i in s.names}
            made |= {i: self.statement.name_symbol("column", i) for names in b.named.values() for i in names}
            yield from self._item_uses(b)
        named = {item.name for b in self.block.walk() for item in b.items if item.aliased}
        i = self.head.body
        while i < self.statement.range.hi:
            if i in named:
                i += 1
            elif i in made:
                yield self._use(i, made[i], True)
                i += 1
            elif i in from_paths and self.read.tokens[i].token_type != T.TABLE:
                yield from self._from_uses(from_paths[i])
                i = from_paths[i].path[-1] + 1
            elif is_name(self.read.tokens[i]) or self.statement.text_of(i) == "@":
                i = yield from self._path_uses(i, made)
            else:
                i += 1

    def _use(self, i: int, symbol: Symbol, defines: bool = False, bare: bool = False) -> Use:
        return Use(self.read.tokens[i].start, self.read.tokens[i].end + 1, symbol, defines, bare)

    def _from_uses(self, source: QuerySource) -> Iterator[Use]:
        cte = self.statement.cte_symbol(source)
        found = [cte] if cte is not None else [symbol for symbol, _ in self.statement.steps(source)]
        for i, symbol in zip(source.path, found, strict=False):
            yield self._use(i, symbol)

    def _path_uses(self, i: int, made: Mapping[int, Symbol]) -> Generator[Use, None, int]:
        path = [j for j in self.read.path_from(i, self.statement.range.hi) if j == i or j not in made]
        block = self.block.innermost(i)
        if len(path) == 1 and is_called(self.read, i, self.statement.range.hi):
            yield self._use(i, Symbol("function", "", "", self.statement.text_of(i).casefold()))
            return i + 1
        if i and self.read.tokens[i - 1].token_type in (T.COLON, T.PARAMETER) and self._parameter(i) is not None:
            yield self._use(i, self._parameter(i) or Symbol("parameter", "", "", ""))
            return i + 1
        bare = any(item.bare == path and not item.aliased for item in block.items)
        for j, (symbol, _, _) in zip(path, self.statement.resolve(block, path), strict=False):
            yield self._use(j, symbol, bare=bare and j == path[-1])
        return path[-1] + 1

    def _parameter(self, i: int) -> Symbol | None:
        names = {self.statement.text_of(p).casefold() for p, _ in self.head.parameters}
        name = self.statement.text_of(i).casefold()
        return Symbol("parameter", self.known.file, f"@{self.statement.range.start}", name) if name in names else None

    def _item_uses(self, block: QueryTokens) -> Iterator[Use]:
        """Yield the names of a query's output columns; those of a view are columns of the view."""
        top = self.block.giving is block
        unknown = (
            self.head.form is StatementForm.VIEW
            and self.head.path
            and self.known.find(self.statement.text_of(self.head.path[0])) is None
        )
        if top and (self.head.form is StatementForm.MEMBER or unknown):
            return
        for item in block.items:
            if item.name is not None and not item.star:
                yield self._use(item.name, self.statement.item_symbol(block, item.name), True, not item.aliased)

    def _head_uses(self) -> Iterator[Use]:
        head, relation = self.head, self.statement.base
        for i, _ in head.parameters:
            if (symbol := self._parameter(i)) is not None:
                yield self._use(i, symbol, True)
        if (
            head.form in (StatementForm.INPUT, StatementForm.VIEW, StatementForm.SUBSCRIPTION, StatementForm.TEMPLATE)
            and head.path
        ):
            made = self.known.find(self.statement.text_of(head.path[0]), self.statement.range.end + 1)
            own = Symbol("relation", self.known.file, "", self.statement.text_of(head.path[0]).casefold())
            yield self._use(
                head.path[0],
                relation_symbol(made) if made is not None and head.form is not StatementForm.TEMPLATE else own,
                True,
            )
            for i, _ in head.columns:
                yield self._use(
                    i,
                    Symbol(
                        "column",
                        self.known.file,
                        self.statement.text_of(head.path[0]).casefold(),
                        self.statement.text_of(i).casefold(),
                    ),
                    True,
                )
        elif head.form is StatementForm.MEMBER and self.statement.owner is not None:
            source = QuerySource(head.path[0], list(head.path[:-1]))
            yield from (
                self._use(i, symbol) for i, (symbol, _) in zip(source.path, self.statement.steps(source), strict=False)
            )
            name = self.statement.text_of(head.path[-1])
            kind = "relationship" if self.statement.owner.link(name) is not None else "column"
            yield self._use(head.path[-1], member(self.statement.owner, name, kind), True)
        elif head.form is StatementForm.EXPORT and head.path:
            yield from self._from_uses(QuerySource(head.path[0], list(head.path)))
        elif head.form is StatementForm.IMPORT and head.path and relation is not None:
            symbol = relation_symbol(relation)
            foreign = relation.home[0] != self.known.file
            if head.alias is not None and foreign:  # both the name and the table's name are local here
                yield self._use(head.alias, symbol, True)
            bare = not foreign and head.alias is None
            yield self._use(
                head.path[-1] if foreign or bare or head.alias is None else head.alias, symbol, not foreign, bare
            )
        yield from self._input_uses()

    def _input_uses(self) -> Iterator[Use]:
        """Yield the columns named in the clauses between the columns of CREATE STREAM and TABLE."""
        if self.head.form is not StatementForm.INPUT or not self.head.path or self.statement.base is None:
            return
        names = {i for i, _ in self.head.columns}
        for i in range(self.head.path[-1] + 1, self.head.body):
            token = self.read.tokens[i]
            if (
                i not in names
                and is_word(token)
                and self.statement.base.column(token.text) is not None
                and self._names_column(i)
            ):
                yield self._use(i, Symbol("column", *folded_home(self.statement.base), token.text.casefold()))

    def _names_column(self, i: int) -> bool:
        """Return whether a word within the brackets of CREATE TABLE names a column and is not part of a type."""
        inside = next(((a, b) for a, b in self.head.columns if a <= i < b), None)
        words = {t.token_type for t in self.read.tokens[inside[0] : i]} if inside is not None else {T.ALIAS}
        return T.ALIAS in words or any(
            t.text.upper() == "CHECK" for t in self.read.tokens[inside[0] if inside else i : i]
        )
