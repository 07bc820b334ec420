"""Parser of SQL++ queries with WINDOW BY.

In: text. Out: a `Query`, or a `BelvedereError` (B1xxx) with the span of the unexpected token. `expression_parser`
parses expressions, this module clauses. Names are not resolved: `check` does that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import TokenType

from belvedere.errors import BelvedereError, Span, fail
from belvedere.functions.project_functions import OwnFunction
from belvedere.sqlpp.expression_parser import RESERVED, ExpressionParser, SqlPlusPlus, UnexpectedToken, implied_name
from belvedere.sqlpp.query_tree import (
    Boundary,
    Expr,
    FromTerm,
    GroupBy,
    Let,
    Name,
    OrderKey,
    Query,
    QueryBlock,
    QueryExpression,
    Select,
    Selected,
    SourceKind,
    Variables,
    WindowBy,
)
from belvedere.sqlpp.repeated_keys import name_group_keys
from belvedere.sqlpp.window_aggregates import over_windows
from belvedere.sqlpp.window_limits import limited

MISPLACED = {
    "WHERE": "WHERE before WINDOW BY filters tuples, HAVING after it filters windows",
    "GROUP BY": "group windows in a query around this one: FROM (...) AS t GROUP BY ...",
    "ORDER BY": "ORDER BY and LIMIT stand after SELECT",
    "LIMIT": "ORDER BY and LIMIT stand after SELECT",
    "WITHIN": "WITHIN limits END alone: END AS e WHEN condition WITHIN INTERVAL 1 HOUR, or END WITHIN INTERVAL 1 HOUR",
    "OVER": "compute OVER in a separate query or view, and read that in FROM",
}
JOINS = {
    "CROSS JOIN": SourceKind.CROSS, "LEFT UNNEST": SourceKind.LEFT_UNNEST, "LEFT OUTER UNNEST": SourceKind.LEFT_UNNEST,
    "UNNEST": SourceKind.UNNEST, "LEFT JOIN": SourceKind.LEFT, "LEFT OUTER JOIN": SourceKind.LEFT,
    "INNER JOIN": SourceKind.INNER,
    "JOIN": SourceKind.INNER,
}  # fmt: skip
VARIABLES = (("item", "AS"), ("position", "AT"), ("previous", "PREV AS"), ("next", "NEXT AS"))
AFTER_VARIABLE = {"WHEN", "AT", "PREV", "NEXT", "WITHIN"}
EXPECTED = {
    "expected ORDER BY": "write WINDOW BY w PARTITION BY key ORDER BY time TYPE SLIDING START ... END ...",
    "expected TYPE": "write TYPE SLIDING if windows may overlap, TYPE TUMBLING if not",
    "expected SLIDING": "SLIDING if windows may overlap, TUMBLING if not",
    "expected END": "write END WHEN condition, END UNBOUNDED, or END alone for windows of one tuple",
}
BOUNDARY_WORDS = {"AT", "PREV", "NEXT", "WHEN", "ONLY", "LET", "WITHIN"}


class WindowByParser(ExpressionParser):
    """Parser of queries, query blocks and WINDOW BY."""

    # -- queries and blocks --

    def whole_query(self) -> QueryExpression:
        """Parse a query up to the end of the text."""
        query = QueryExpression(query=self.parse_query())
        if self._curr:
            self.raise_error("expected the end of the query")
        return query

    def whole_member(self) -> Selected:
        """Parse a member of SELECT up to the end of the text."""
        member = self._selected()
        if self._curr:
            self.raise_error("expected the end of the text")
        return member

    def parse_query(self) -> Query:
        """Parse `[WITH ...] block [UNION ALL block ...] [ORDER BY] [LIMIT] [OFFSET]`."""
        start = self._curr
        bindings = self._list(self._with_binding) if self._match(TokenType.WITH) else ()
        blocks = [self._block()]
        while self._match(TokenType.UNION):
            self._words("ALL")
            blocks.append(self._block())
        order: tuple[OrderKey, ...] = ()
        if self._match(TokenType.ORDER_BY):
            order = self._list(self._order_key)
        limit = self.value() if self._match(TokenType.LIMIT) else None
        offset = self.value() if self._match(TokenType.OFFSET) else None
        return Query(tuple(blocks), bindings, order, limit, offset, self._span(start))

    def _with_binding(self) -> Let:
        name = self._name("a name after WITH")
        self._expect(TokenType.ALIAS, "AS")
        return Let(name, self.value())

    def _block(self) -> QueryBlock:
        start = self._curr
        if start and start.token_type == TokenType.L_PAREN:
            self._advance()
            block = self._block()
            self._expect(TokenType.R_PAREN, ")")
            return block
        if start and start.token_type == TokenType.SELECT:
            select = self._select()
            parts = self._generator() if self._curr and self._curr.token_type == TokenType.FROM else {}
        else:
            parts = self._generator()
            if not self._curr or self._curr.token_type != TokenType.SELECT:
                self.raise_error("expected SELECT")
            select = self._select()
        return over_windows(limited(name_group_keys(QueryBlock(select, **parts, span=self._span(start)))))

    def _generator(self) -> dict[str, Any]:
        self._expect(TokenType.FROM, "FROM or SELECT")
        parts: dict[str, Any] = {"sources": self._sources()}
        parts["lets"] = self._lets()
        parts["where"] = self.value() if self._match(TokenType.WHERE) else None
        if self._match(TokenType.GROUP_BY):
            parts["group"] = self._group()
            parts["group_lets"] = self._lets()
            parts["having"] = self.value() if self._match(TokenType.HAVING) else None
        if self._at("WINDOW", "BY"):
            parts["window"] = self._window_by()
            parts["window_lets"] = self._lets()
            parts["window_having"] = self.value() if self._match(TokenType.HAVING) else None
        return parts

    def _lets(self) -> tuple[Let, ...]:
        if self._match_text_seq("LET") or self._match_text_seq("LETTING"):
            return self._list(self._let)
        return ()

    def _let(self) -> Let:
        name = self._name("a variable after LET")
        self._expect(TokenType.EQ, "=")
        return Let(name, self.value())

    def _select(self) -> Select:
        self._expect(TokenType.SELECT, "SELECT")
        distinct = bool(self._match(TokenType.DISTINCT))
        if not distinct:
            self._match_text_seq("ALL")
        value_word = self._at("VALUE") or self._at("ELEMENT") or self._at("RAW")
        if value_word and self._next and self._next.token_type not in (TokenType.COMMA, TokenType.DOT, TokenType.FROM):
            self._advance()
            return Select(value=self.value(), distinct=distinct)
        return Select(items=self._list(self._selected), distinct=distinct)

    def _selected(self) -> Selected:
        start = self._curr
        if self._match(TokenType.STAR):
            return Selected(None, star=True, span=self._span(start))
        expr = self.value()
        if isinstance(expr, exp.Dot) and isinstance(expr.expression, exp.Star):
            return Selected(expr.this, star=True, span=self._span(start))
        alias = self._alias()
        name = alias.text if alias else implied_name(expr)
        return Selected(expr, name, span=self._span(start))

    def _alias(self) -> Name | None:
        if self._match(TokenType.ALIAS):
            return self._name("a name after AS")
        token = self._curr
        if not token or token.text.upper().split(" ")[0] in RESERVED:
            return None
        if token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            return self._name("a name")
        return None

    def _sources(self) -> tuple[FromTerm, ...]:
        sources = [self._source(SourceKind.CROSS)]
        while (kind := self._joining()) is not None:
            sources.append(self._source(kind))
        return tuple(sources)

    def _joining(self) -> SourceKind | None:
        """Return how the next term of FROM joins those before it; None if there is none."""
        if self._match(TokenType.COMMA):
            return SourceKind.CROSS
        return next((kind for words, kind in JOINS.items() if self._match_text_seq(*words.split())), None)

    def _source(self, kind: SourceKind) -> FromTerm:
        expr = self.value(self._parse_bitwise)
        variable = self._alias() or self._implied_variable(expr)
        position = self._name("a variable after AT") if self._match_text_seq("AT") else None
        condition = None
        joins = kind in (SourceKind.INNER, SourceKind.LEFT)
        if joins and (not isinstance(expr, exp.Dot) or (self._curr and self._curr.token_type == TokenType.ON)):
            self._expect(TokenType.ON, "ON")
            condition = self.value()
        return FromTerm(variable, expr, kind, condition, position)

    def _implied_variable(self, expr: Expr) -> Name:
        name = implied_name(expr)
        if name is None:
            self.raise_error("expected AS and a variable for this FROM term")
        return Name(str(name), expr.meta["span"])

    def _group(self) -> GroupBy:
        keys = self._list(self._group_key)
        group = None
        if self._match_text_seq("GROUP", "AS"):
            group = self._name("a variable after GROUP AS")
        return GroupBy(keys, group)

    def _group_key(self) -> Let:
        expr = self.value()
        name = self._alias() or self._implied_variable(expr)
        return Let(name, expr)

    def _order_key(self) -> OrderKey:
        expr = self.value()
        descending = bool(self._match(TokenType.DESC))
        if not descending:
            self._match(TokenType.ASC)
        first: bool | None = None
        if self._match_text_seq("NULLS", "FIRST"):
            first = True
        elif self._match_text_seq("NULLS", "LAST"):
            first = False
        return OrderKey(expr, descending, first)

    # -- the clause --

    def _window_by(self) -> WindowBy:
        start = self._curr
        self._words("WINDOW", "BY")
        name = self._name("the window's variable after WINDOW BY")
        self._match(TokenType.ALIAS)
        bracket = self._match(TokenType.L_PAREN)
        partition, order, tumbling = self._properties()
        label = self._boundary("LABEL") if self._match_text_seq("LABEL") else None
        opening = self._boundary("START") if self._match_text_seq("START") else Boundary()
        only = self._match_text_seq("ONLY")
        end = self._boundary("END") if self._match(TokenType.END) else None
        if only and end is None:
            self.raise_error("expected END after ONLY")
        if end is not None and end.within is not None and opening.unbounded:
            self.raise_error("START UNBOUNDED has no tuple from which WITHIN counts", self._prev)
        if end is None and (not tumbling or label is not None):
            self.raise_error("expected END")
        if bracket:
            self._expect(TokenType.R_PAREN, ") at the end of WINDOW BY")
        return WindowBy(name, partition, order, tumbling, opening, end, label, bool(only), self._span(start))

    def _properties(self) -> tuple[tuple[Expr, ...], tuple[OrderKey, ...], bool]:
        found: dict[str, Any] = {}
        while True:
            if self._match(TokenType.PARTITION_BY):
                self._once(found, "PARTITION BY", self._list(self.value))
            elif self._match(TokenType.ORDER_BY):
                self._once(found, "ORDER BY", self._list(self._order_key))
            elif self._match_text_seq("TYPE"):
                self._once(found, "TYPE", self._type())
            else:
                break
        if "ORDER BY" not in found:
            self.raise_error("expected ORDER BY: a window needs the order of its tuples")
        if "TYPE" not in found:
            self.raise_error("expected TYPE SLIDING or TYPE TUMBLING")
        return found.get("PARTITION BY", ()), found["ORDER BY"], found["TYPE"]

    def _once(self, found: dict[str, Any], clause: str, value: Any) -> None:
        if clause in found:
            self.raise_error(f"{clause} occurs twice in one WINDOW BY", self._prev)
        found[clause] = value

    def _type(self) -> bool:
        if self._match_text_seq("TUMBLING"):
            return True
        if not self._match_text_seq("SLIDING"):
            self.raise_error("expected SLIDING or TUMBLING after TYPE")
        return False

    def _boundary(self, clause: str) -> Boundary:
        start = self._prev
        if clause != "LABEL" and self._match_text_seq("UNBOUNDED"):
            if self._curr and self._curr.token_type == TokenType.ALIAS:
                self.raise_error("UNBOUNDED has no variables")
            return Boundary(unbounded=True, span=self._span(start))
        if self._at_bare_variable():
            self.raise_error(f"expected {clause} AS before a variable")
        found = {
            r: self._name(f"a variable after {words}") for r, words in VARIABLES if self._match_text_seq(*words.split())
        }
        if self._curr and (self._curr.token_type == TokenType.ALIAS or self._at("AT") or self._at("PREV", "AS")):
            self.raise_error("the variables of a boundary must have the order AS, AT, PREV AS, NEXT AS")
        when = self.value() if self._match_text_seq("WHEN") else None
        within = self.value() if clause == "END" and self._match_text_seq("WITHIN") else None
        return Boundary(Variables(**found), when, False, self._span(start), within)

    def _at_bare_variable(self) -> bool:
        """Return whether AS is omitted."""
        here, following = self._curr, self._next
        plain = here is not None and here.token_type == TokenType.VAR and here.text.upper() not in BOUNDARY_WORDS
        return plain and following is not None and following.text.upper() in AFTER_VARIABLE


def mentions_window_by(text: str) -> bool:
    """Return whether the two words WINDOW BY are adjacent outside strings and comments."""
    try:
        tokens = SqlPlusPlus().tokenize(text)
    except TokenError:
        return False
    return any(
        a.text.upper() == "WINDOW" and a.token_type != TokenType.STRING and b.text.upper() == "BY"
        for a, b in pairwise(tokens)
    )


def parse_window_query(text: str, file: str = "", functions: Mapping[str, OwnFunction] | None = None) -> Query:
    """Parse a query. Calls of the project's `functions` (by folded name) refer to them.

    Raises `BelvedereError` B1601 for a syntax error, B1602 for an unclosed string.
    """
    found = _parsed(WindowByParser.whole_query, text, file, functions)
    if not isinstance(found, QueryExpression):
        raise fail("B1601", "expected one query", span=Span(file, 0, len(text)))
    return found.query


def parse_selected(text: str) -> Selected:
    """Parse a single member of SELECT. Raises as `parse_window_query`."""
    found: Selected = _parsed(WindowByParser.whole_member, text, "")
    return found


def _parsed(
    parse: Callable[[Any], Any], text: str, file: str, functions: Mapping[str, OwnFunction] | None = None
) -> Any:
    dialect = SqlPlusPlus()
    try:
        tokens = dialect.tokenize(text)
    except TokenError as error:
        raise fail("B1602", "a string, comment or quoted name is not closed", detail=str(error)) from error
    parser = WindowByParser(dialect=dialect)
    parser.functions = functions or {}
    if tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    try:
        found = parser._parse(parse, tokens, text)
    except UnexpectedToken as error:
        raise _syntax_error(error, text, file) from None
    except ParseError as error:
        raise fail("B1601", f"syntax error: {str(error).splitlines()[0].lower()}") from error
    if len(found) != 1:
        raise fail("B1601", "expected one query", span=Span(file, 0, len(text)))
    return found[0]


def _syntax_error(error: UnexpectedToken, text: str, file: str) -> BelvedereError:
    message = str(error).rstrip(".")
    if message.startswith("Required keyword"):
        message = "an operand is missing"
    message = message[:1].lower() + message[1:] if not message[:2].isupper() else message
    token = error.token
    span = Span(file, token.start, token.end + 1) if token else Span(file, len(text), len(text))
    found = f'found "{token.text}"' if token else "found the end of the text"
    return fail("B1601", f"{message}, {found}", span=span, hint=_hint(message, token.text.upper() if token else ""))


def _hint(message: str, found: str) -> str | None:
    if found in MISPLACED and message.startswith(("expected SELECT", "expected the end of the query")):
        return MISPLACED[found]
    return next((hint for start, hint in EXPECTED.items() if message.startswith(start)), None)
