"""Parser of scalar expressions of SQL++.

In: tokens. Out: sqlglot trees in the normal form of `window_by`. The parser is a subclass of sqlglot's Spark parser and
contains only the additions of SQL++. `parser` parses clauses.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.errors import Span
from belvedere.functions.project_functions import OWN, OwnFunction
from belvedere.sqlpp.query_tree import Expr, FromTerm, Missing, Name, Query, QueryBlock, QueryExpression, Select

T = TypeVar("T")
TYPED_CALLS = frozenset({"CAST", "TRY_CAST", "EXTRACT"})
# Words that cannot be an alias without AS: each begins a clause or joins one.
RESERVED = frozenset(
    "WHERE LET LETTING GROUP HAVING WINDOW SELECT FROM ORDER LIMIT OFFSET UNION JOIN INNER LEFT RIGHT FULL CROSS OUTER "
    "ON UNNEST AT AS PARTITION TYPE LABEL START ONLY END WHEN PREV NEXT THEN ELSE AND OR NOT IN IS LIKE "
    "BETWEEN SATISFIES".split()
)
QUERY_TOKENS = (TokenType.SELECT, TokenType.FROM, TokenType.WITH)


class SqlPlusPlus(Spark):
    """Tokens of the text: those of Spark, with 'it''s' as one string."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


class UnexpectedToken(ParseError):
    """A syntax error with its token."""

    def __init__(self, message: str, token: Token | None):
        super().__init__(message)
        self.token = token


class ExpressionParser(Spark.Parser):  # type: ignore[misc, valid-type]
    """Spark\'s expressions with SQL++\'s additions: queries as values, objects, `[*]`, IS MISSING, quantifiers."""

    NO_PAREN_FUNCTION_PARSERS = {"CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    TEXT_MATCH_EXCLUDED_TOKENS = {*Spark.Parser.TEXT_MATCH_EXCLUDED_TOKENS, TokenType.IDENTIFIER}

    functions: Mapping[str, OwnFunction] = MappingProxyType({})
    """The functions of the project, by folded name."""

    # -- additions of SQL++ to expressions --

    def raise_error(self, message: str, token: Any = None) -> None:
        raise UnexpectedToken(message, token or self._curr or None)

    def _parse_function_call(self, functions: Any = None, anonymous: bool = False, **options: Any) -> Any:
        plain = self._curr.text.upper() not in TYPED_CALLS if self._curr else True
        found = super()._parse_function_call(functions, anonymous=anonymous or plain, **options)
        if isinstance(found, exp.Anonymous) and (own := self.functions.get(found.name.casefold())) is not None:
            found.set(OWN, own)
        return found

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        return this  # no OVER here: SQL++'s OVER and WINDOW BY do not mix in this grammar

    def _parse_select(self, *args: Any, **options: Any) -> Any:
        if self._curr and self._curr.token_type in QUERY_TOKENS:
            return QueryExpression(query=self.parse_query())
        return None

    def _parse_is(self, this: Any) -> Any:
        index = self._index
        negate = self._match(TokenType.NOT)
        for word in ("MISSING", "UNKNOWN", "VALUED", "KNOWN"):
            if self._match_text_seq(word):
                test = exp.Is(this=this, expression=exp.var("VALUED" if word == "KNOWN" else word))
                return exp.Not(this=test) if negate else test
        self._retreat(index)
        return super()._parse_is(this)

    def _parse_unary(self) -> Any:
        token = self._curr
        if token and token.token_type == TokenType.L_BRACE:
            return self._parse_column_ops(self._object())
        if token and token.token_type == TokenType.EXISTS and self._next and self._next.token_type != TokenType.L_PAREN:
            self._advance()
            return exp.Exists(this=self._parse_unary())
        quantifier = token.text.upper() if token and token.token_type != TokenType.STRING else ""
        if quantifier in ("SOME", "ANY", "EVERY") and self._next and self._next.token_type == TokenType.VAR:
            return self._quantified(quantifier)
        return super()._parse_unary()

    def _object(self) -> Expr:
        self._advance()
        members: list[Any] = []
        while not self._match(TokenType.R_BRACE):
            if members:
                self._expect(TokenType.COMMA, "a comma or } in the object")
            members.append(self._object_member())
        return exp.Struct(expressions=members)

    def _object_member(self) -> Expr:
        if self._next and self._next.token_type != TokenType.COLON:
            value = self.value()
            name = value.expression.name if isinstance(value, exp.Dot) else value.name
            return exp.PropertyEQ(this=exp.Literal.string(name), expression=value)
        name = self._curr.text
        self._advance(2)
        return exp.PropertyEQ(this=exp.Literal.string(name), expression=self.value())

    def _quantified(self, quantifier: str) -> Expr:
        self._advance()
        variable = self._name("a variable")
        self._expect(TokenType.IN, "IN")
        collection = self.value(self._parse_bitwise)
        self._words("SATISFIES")
        condition = self.value()
        if quantifier == "EVERY":
            condition = exp.Not(this=exp.Is(this=condition, expression=exp.true()))
        block = QueryBlock(Select(value=exp.true()), sources=(FromTerm(variable, collection),), where=condition)
        found = exp.Exists(this=QueryExpression(query=Query((block,))))
        return exp.Not(this=found) if quantifier == "EVERY" else found

    # -- small steps --

    def _expect(self, token_type: TokenType, what: str) -> None:
        if not self._match(token_type):
            self.raise_error(f"expected {what}")

    def _words(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self.raise_error(f"expected {' '.join(words)}")

    def _at(self, *words: str) -> bool:
        return bool(self._match_text_seq(*words, advance=False))

    def _span(self, start: Token, end: Token | None = None) -> Span:
        return Span("", start.start, (end or self._prev or start).end + 1)

    def _name(self, what: str) -> Name:
        token = self._curr
        identifier = self._parse_id_var(any_token=False) if token else None
        if identifier is None:
            self.raise_error(f"expected {what}")
        assert identifier is not None
        return Name(identifier.name, self._span(token))

    def value(self, parse: Callable[[], Any] | None = None) -> Expr:
        """Parse one scalar expression in normal form; `meta["span"]` is its position."""
        start = self._curr
        tree = (parse or self._parse_disjunction)() if start else None
        if tree is None:
            self.raise_error("expected an expression")
        assert tree is not None
        normal = normalize(tree)
        normal.meta["span"] = self._span(start)
        return normal

    def _list(self, parse: Callable[[], T]) -> tuple[T, ...]:
        members = [parse()]
        while self._match(TokenType.COMMA):
            members.append(parse())
        return tuple(members)

    @abstractmethod
    def parse_query(self) -> Query:
        """Parse a query in the position of a value."""


def implied_name(expr: Expr) -> str | None:
    """Return the column name that a path or a variable implies without AS; None for other expressions."""
    if isinstance(expr, exp.Dot) and isinstance(expr.expression, exp.Identifier):
        return str(expr.expression.name)
    return str(expr.name) if isinstance(expr, exp.Column) else None


def normalize(tree: Expr) -> Expr:
    """Return the normal form: variables unqualified, fields as Dot, no parentheses, MISSING as a node of its own."""

    def change(node: Any) -> Any:
        while isinstance(node, exp.Paren):
            node = node.this
        if not isinstance(node, exp.Column):
            return node
        parts = node.parts
        root = parts[0]
        if len(parts) == 1 and not root.args.get("quoted") and root.name.upper() == "MISSING":
            return Missing()
        result: Any = exp.Column(this=root.copy())
        for part in parts[1:]:
            result = exp.Dot(this=result, expression=part.copy())
        result.meta.update(node.meta)
        return result

    def walk(node: Any) -> Any:
        node = change(node)
        if isinstance(node, exp.Column):
            return node
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, walk(value))
            elif isinstance(value, list):
                node.set(key, [walk(v) if isinstance(v, exp.Expr) else v for v in value])
        return node

    normal: Expr = walk(tree)
    return normal
