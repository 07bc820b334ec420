"""The queries of a statement as blocks: their inputs, outputs and names.

In: the tokens of a statement. Out: nested `QueryTokens`. Names are not resolved here: a block has their positions. It
never fails: missing parts are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.tolerant_reading import ReadText, is_called, is_name, is_word, may_be_alias
from belvedere.syntax.forms.windowing_calls import FUNCTIONS as WINDOWS

SETS = (T.UNION, T.EXCEPT, T.INTERSECT)
AFTER_QUERY = (*SETS, T.ORDER_BY, T.LIMIT, T.OFFSET, T.PIPE_GT)
"""Tokens that may follow a bracketed query that is an operand of another query."""
CLAUSES = {
    T.SELECT: "SELECT",
    T.FROM: "FROM",
    T.JOIN: "FROM",
    T.ON: "ON",
    T.USING: "USING",
    T.WHERE: "WHERE",
    T.GROUP_BY: "GROUP BY",
    T.HAVING: "HAVING",
    T.ORDER_BY: "ORDER BY",
    T.LIMIT: "LIMIT",
    T.QUALIFY: "QUALIFY",
}
NAMED = (T.TABLE, T.ALL, T.RANGE)
"""Keywords with which an item of FROM may begin."""
QUERY = (T.SELECT, T.FROM, T.WITH, T.L_PAREN, T.VALUES)


@dataclass
class QuerySource:
    """An item of FROM: a path or a query, with its alias, column names, and enclosing windowing function in capitals.

    For `UNNEST(t.xs)` `array` is the path of the array. `window` are the tokens of `WINDOW (...)` and `OVER (...)`
    before the alias.
    """

    at: int
    path: list[int] = field(default_factory=list)
    alias: int | None = None
    inner: QueryTokens | None = None
    function: str = ""
    array: list[int] = field(default_factory=list)
    names: list[int] = field(default_factory=list)
    window: range = range(0)


@dataclass
class SelectItem:
    """An item of SELECT, the tokens `[lo, hi)`. `name` is the token of its name. `bare` is its path if the item is only
    a path."""

    lo: int
    hi: int
    name: int | None = None
    aliased: bool = False
    bare: list[int] = field(default_factory=list)
    star: bool = False


@dataclass
class QueryTokens:
    """A query, the tokens `[lo, hi)`. `ctes` are the names of WITH with their queries; `named` are those with column
    lists."""

    lo: int
    hi: int
    parent: QueryTokens | None = None
    sources: list[QuerySource] = field(default_factory=list)
    items: list[SelectItem] = field(default_factory=list)
    ctes: list[tuple[int, QueryTokens | None]] = field(default_factory=list)
    named: dict[int, list[int]] = field(default_factory=dict)
    clauses: list[tuple[int, str]] = field(default_factory=list)
    children: list[QueryTokens] = field(default_factory=list)

    def clause_at(self, i: int) -> str:
        """Return the clause that contains a token."""
        return next((word for at, word in reversed(self.clauses) if at < i), "")

    def innermost(self, i: int) -> QueryTokens:
        """Return the innermost block that contains a token or the position before it."""
        found = next((c for c in self.children if c.lo <= i <= c.hi), None)
        return found.innermost(i) if found is not None else self

    def walk(self) -> Iterator[QueryTokens]:
        """Yield this block and those within it."""
        yield self
        for child in self.children:
            yield from child.walk()

    @property
    def giving(self) -> QueryTokens:
        """Return the block whose items define the columns: for a WITH, its first query."""
        bare = not self.items and not self.sources and self.children
        own = [c for c in self.children if all(c is not cte for _, cte in self.ctes)] if bare else []
        return own[0].giving if own else self


def read_block(read: ReadText, lo: int, hi: int) -> QueryTokens:
    """Return the block of a statement's body, the tokens `[lo, hi)`."""
    whole = QueryTokens(lo, hi)
    _BlockReader(read).region(lo, hi, whole)
    return whole


class _BlockReader:
    def __init__(self, read: ReadText):
        self.read, self.tokens = read, read.tokens

    def region(self, lo: int, hi: int, parent: QueryTokens) -> QueryTokens:
        """Read a query within `parent`, which may have WITH and set operators."""
        made = QueryTokens(lo, hi, parent)
        parent.children.append(made)
        i = self._ctes(lo, hi, made) if lo < hi and self.tokens[lo].token_type == T.WITH else lo
        ends = [*self._operators(i, hi), hi]
        if len(ends) == 1:
            self._query(i, hi, made)
            return made
        for end in ends:
            arm = QueryTokens(i, end, made)
            made.children.append(arm)
            self._query(i, end, arm)
            i = end + 1
        return made

    def _operators(self, lo: int, hi: int) -> Iterator[int]:
        i = lo
        while i < hi:
            kind = self.tokens[i].token_type
            if kind in (T.L_PAREN, T.L_BRACKET):
                i = self.read.close(i, hi)
            elif kind in SETS:
                yield i
            i += 1

    def _ctes(self, lo: int, hi: int, block: QueryTokens) -> int:
        """Read `WITH [RECURSIVE] name [(columns)] AS (query), ...`; return the token after it."""
        i = lo + 1 + (lo + 1 < hi and self.tokens[lo + 1].text.upper() == "RECURSIVE")
        while i < hi and is_word(self.tokens[i]) and self.tokens[i].token_type not in CLAUSES:
            name, place = i, len(block.ctes)
            i += 1
            block.ctes.append((name, None))
            block.named[name], i = self._names(i, hi)
            if i < hi and self.tokens[i].token_type == T.ALIAS:
                i += 1
            if i < hi and self.tokens[i].token_type == T.L_PAREN:
                end = self.read.close(i, hi)
                block.ctes[place] = (name, self.region(i + 1, end, block))
                i = end + 1
            if i < hi and self.tokens[i].token_type == T.COMMA:
                i += 1
            else:
                break
        return i

    def _query(self, lo: int, hi: int, block: QueryTokens) -> None:
        i, begin = lo, None
        if lo < hi and self.tokens[lo].token_type in (
            T.DISTINCT,
            T.TABLE,
        ):  # forms: DISTINCT table ON keys ORDER BY ..., TABLE t
            block.clauses.append((lo, "FROM"))
            i = self._source(lo + 1, hi, block)
        while i < hi:
            kind = self.tokens[i].token_type
            clause = CLAUSES.get(kind)
            if kind == T.FROM and i > lo and self.tokens[i - 1].token_type == T.DISTINCT:  # IS DISTINCT FROM
                i += 1
            elif clause is not None or kind == T.PIPE_GT:
                self._item(begin, i, block)
                begin = None
                block.clauses.append((i, clause or "FROM"))
                if clause == "SELECT":
                    i = begin = self._after_select(i + 1, hi, block)
                else:
                    i = self._source(i + 1, hi, block) if clause == "FROM" else i + 1
            elif kind == T.COMMA:
                self._item(begin, i, block)
                begin = i + 1 if begin is not None else None
                i = self._source(i + 1, hi, block) if block.clause_at(i) == "FROM" else i + 1
            elif kind == T.LATERAL:
                i = self._lateral_view(i + 1, hi, block)
            else:
                i = self._any(i, hi, block)
        self._item(begin, hi, block)

    def _any(self, i: int, hi: int, block: QueryTokens) -> int:
        """Read one token, or a pair of brackets with its contents."""
        if self.tokens[i].token_type not in (T.L_PAREN, T.L_BRACKET):
            return i + 1
        end = self.read.close(i, hi)
        self._inside(i + 1, end, block)
        return end + 1

    def _inside(self, lo: int, hi: int, block: QueryTokens) -> QueryTokens | None:
        """Read the contents of brackets: a query, or expressions that may contain queries."""
        if lo < hi and self.tokens[lo].token_type in QUERY and self._is_query(lo, hi):
            return self.region(lo, hi, block)
        i = lo
        while i < hi:
            i = self._any(i, hi, block)
        return None

    def _is_query(self, lo: int, hi: int) -> bool:
        while lo < hi and self.tokens[lo].token_type == T.L_PAREN:
            lo += 1
        return lo < hi and self.tokens[lo].token_type in (T.SELECT, T.FROM, T.WITH, T.VALUES)

    def _after_select(self, i: int, hi: int, block: QueryTokens) -> int:
        while i < hi and (self.tokens[i].token_type in (T.DISTINCT, T.ALL) or self._is_stream(i, hi)):
            i += 1
            if i < hi and self.tokens[i].token_type == T.ON and is_called(self.read, i, hi):  # DISTINCT ON (...)
                i = self._any(i + 1, hi, block)
        return i

    def _is_stream(self, i: int, hi: int) -> bool:
        follows = i + 1 < hi and self.tokens[i + 1].token_type not in (T.COMMA, T.FROM, T.DOT, T.ALIAS)
        return self.tokens[i].text.upper() == "STREAM" and follows

    # -- FROM ---------------------------------------------------------------------------------------------------------

    def _source(self, i: int, hi: int, block: QueryTokens) -> int:
        """Read an item of FROM; return the token after it."""
        while i < hi and self.tokens[i].token_type == T.LATERAL:
            i += 1
        if i >= hi:
            return i
        source = QuerySource(i)
        if self.tokens[i].token_type == T.L_PAREN:
            end = self.read.close(i, hi)
            source.inner = (
                self._inside(i + 1, end, block)
                if self._is_query(i + 1, end) and not self._is_join(i + 1, end)
                else None
            )
            if source.inner is None:  # the brackets hold a join
                self._query_items(i + 1, end, block)
                return end + 1
            i = end + 1
        elif self.tokens[i].token_type == T.VALUES:
            i += 1
            while i + 1 < hi and self.tokens[i].token_type in (T.L_PAREN, T.COMMA):
                i = self._any(i, hi, block)
        elif is_name(self.tokens[i]) or self.tokens[i].token_type in NAMED or self.tokens[i].text in ("@", "_"):
            i = self._named(i, hi, source, block)
        else:
            return i
        block.sources.append(source)
        return self._alias(self._as_of(i, hi), hi, source)

    def _is_join(self, lo: int, hi: int) -> bool:
        """Return whether brackets that begin with a bracketed query hold a join: an alias or JOIN follows, and no set
        operator."""
        end = self.read.close(lo, hi) + 1
        return self.tokens[lo].token_type == T.L_PAREN and end < hi and self.tokens[end].token_type not in AFTER_QUERY

    def _lateral_view(self, i: int, hi: int, block: QueryTokens) -> int:
        """Read `LATERAL VIEW [OUTER] function(...) alias [AS column, ...]` from the token after LATERAL; return the
        token after it."""
        while i < hi and self.tokens[i].token_type in (T.VIEW, T.OUTER):
            i += 1
        count = len(block.sources)
        i = self._source(i, hi, block)
        if len(block.sources) == count or i >= hi or self.tokens[i].token_type != T.ALIAS:
            return i
        while i + 1 < hi and self.tokens[i].token_type in (T.ALIAS, T.COMMA) and is_name(self.tokens[i + 1]):
            block.sources[-1].names.append(i + 1)
            i += 2
        return i

    def _query_items(self, lo: int, hi: int, block: QueryTokens) -> None:
        i = self._source(lo, hi, block)
        while i < hi:
            kind = self.tokens[i].token_type
            i = self._source(i + 1, hi, block) if kind in (T.JOIN, T.COMMA) else self._any(i, hi, block)

    def _named(self, i: int, hi: int, source: QuerySource, block: QueryTokens) -> int:
        path = self.read.path_from(i, hi)
        after = path[-1] + 1
        if not is_called(self.read, path[-1], hi):
            source.path = path
            return after
        end = self.read.close(after, hi)
        source.function = self.tokens[i].text.upper()
        if source.function in ("TABLE", "LATE", *WINDOWS):
            self._windowed(after + 1, end, source, block)
        else:
            source.path = path
            self._inside(after + 1, end, block)
            array = self.read.path_from(after + 1, end) if after + 1 < end and is_name(self.tokens[after + 1]) else []
            source.array = array if array and array[-1] + 1 == end else []
        return end + 1

    def _windowed(self, lo: int, hi: int, source: QuerySource, block: QueryTokens) -> None:
        """Read the relation in `TABLE(T)`, `LATE(T)`, `Tumble(data => TABLE(T), ...)`, `TABLE(TUMBLE(TABLE T, ...))`,
        or its query."""
        i = lo
        while i < hi:
            token = self.tokens[i]
            word = token.text.upper()
            if word in WINDOWS and is_called(self.read, i, hi):
                source.function = word
            elif self._is_query(i, hi) and token.token_type in (T.L_PAREN, T.SELECT, T.FROM):
                end = self.read.close(i, hi) if token.token_type == T.L_PAREN else hi
                source.inner = source.inner or self._inside(i + (token.token_type == T.L_PAREN), end, block)
                i = end
            elif is_name(token) and not source.path and source.inner is None and not self._is_argument(i, hi):
                source.path = self.read.path_from(i, hi)
                return
            i += 1

    def _is_argument(self, i: int, hi: int) -> bool:
        """Return whether a word is the name of an argument, or a function."""
        return i + 1 < hi and self.tokens[i + 1].token_type in (T.FARROW, T.L_PAREN)

    def _as_of(self, i: int, hi: int) -> int:
        """Skip `FOR SYSTEM_TIME AS OF time`; return the token after it."""
        if not (
            i + 1 < hi and self.tokens[i].text.upper() == "FOR" and self.tokens[i + 1].text.upper().startswith("SYSTEM")
        ):
            return i
        while i < hi and self.tokens[i].text.upper() != "OF":
            i += 1
        i += 1
        while i < hi:
            i = self.read.path_from(i, hi)[-1] + 1
            if i < hi and self.tokens[i].token_type == T.L_PAREN:
                i = self.read.close(i, hi) + 1
            if not (i < hi and self.tokens[i].token_type in (T.PLUS, T.DASH)):
                break
            i += 1 + (i + 1 < hi and self.tokens[i + 1].token_type == T.INTERVAL)
        return i

    def _alias(self, i: int, hi: int, source: QuerySource) -> int:
        while i < hi and self.tokens[i].text.upper() in ("WINDOW", "OVER") and is_called(self.read, i, hi):
            source.window = range(i + 1, self.read.close(i + 1, hi))
            i = source.window.stop + 1
        if i < hi and self.tokens[i].token_type == T.ALIAS:
            i += 1
        if i < hi and may_be_alias(self.tokens[i]) and not self._is_definition(i, hi):
            source.alias = i
            i += 1
            source.names, i = self._names(i, hi)
        return i

    def _names(self, i: int, hi: int) -> tuple[list[int], int]:
        """Return the column names in brackets after an alias, and the token after them."""
        if i >= hi or self.tokens[i].token_type != T.L_PAREN:
            return [], i
        end = self.read.close(i, hi)
        return [j for j in range(i + 1, end) if is_word(self.tokens[j])], end + 1

    def _is_definition(self, i: int, hi: int) -> bool:
        return i + 1 < hi and self.tokens[i + 1].token_type == T.COLON_EQ

    # -- SELECT -------------------------------------------------------------------------------------------------------

    def _item(self, begin: int | None, end: int, block: QueryTokens) -> None:
        if begin is None or begin >= end:
            return
        item = SelectItem(begin, end, star=self.tokens[end - 1].token_type == T.STAR)
        block.items.append(item)
        last = self.tokens[end - 1]
        path = (
            self.read.path_from(begin, end)
            if is_name(self.tokens[begin]) or self.tokens[begin].text in ("@", "_")
            else []
        )
        if path and path[-1] + 1 == end:
            item.bare, item.name = path, path[-1]
        elif (end - 2 >= begin and self.tokens[end - 2].token_type == T.ALIAS and is_word(last)) or (
            end - 2 >= begin and is_name(last) and self._ends_value(end - 2)
        ):
            item.name, item.aliased = end - 1, True
        if item.aliased and path and path[-1] + (3 if self.tokens[end - 2].token_type == T.ALIAS else 2) == end:
            item.bare = path

    def _ends_value(self, i: int) -> bool:
        """Return whether a value ends at a token; if so, a word after it is its name."""
        kind = self.tokens[i].token_type
        return kind in (T.R_PAREN, T.R_BRACKET, T.NUMBER, T.STRING, T.END, T.NULL, T.TRUE, T.FALSE) or is_name(
            self.tokens[i]
        )
