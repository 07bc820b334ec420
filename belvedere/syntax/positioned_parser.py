"""Parser of one statement's tokens that keeps all positions, and reports errors at the exact position.

In: tokens of a script. Out: sqlglot trees whose nodes have `meta["start"]` and `meta["end"]` (offsets in the script).
`belvedere.syntax.dialect` has SQRL's additions to the language.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.spark_sql.operators import OperatorParser
from belvedere.syntax.forms.call_counts import miscount
from belvedere.syntax.problems import Problem, describe, shown

WORD_HOLDERS = (
    exp.TsOrDsAdd,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.DateDiff,
    exp.TimestampDiff,
    exp.AtTimeZone,
    exp.FromTimeZone,
    exp.Struct,
)
"""Calls that store an argument in another form: a unit as a word, a signed number of days, the name of a field."""


def _is_kept_as_word(call: exp.Expr, argument: exp.Expr) -> bool:
    return isinstance(call, WORD_HOLDERS) or isinstance(argument, exp.Boolean) or argument.is_string


def _covering(name: str) -> Any:
    """Wrap a method of sqlglot so that its result records its extent."""

    def parse(self: PositionedParser, *args: Any, **kwargs: Any) -> Any:
        first = self._curr
        return self._covered(getattr(super(PositionedParser, self), name)(*args, **kwargs), first)

    return parse


def _names_window(before: Token, after: Token) -> bool:
    """Return whether WINDOW between these tokens is Spark's function, or its column, and not a clause."""
    if after.token_type == TokenType.DOT:
        return True
    begins = before.token_type in (TokenType.GROUP_BY, TokenType.SELECT, TokenType.COMMA)
    return begins and after.token_type in (TokenType.L_PAREN, TokenType.COMMA, TokenType.FROM, TokenType.ALIAS)


class PositionedParser(OperatorParser):
    """Spark parser with exact positions and Belvedere's error messages."""

    def begin(self, tokens: list[Token], text: str, stream_selects: Collection[int] = ()) -> None:
        """Prepare to parse `tokens` of the script `text`; `stream_selects` are the offsets of SELECT STREAM."""
        self.reset()
        self.error_level = ErrorLevel.IMMEDIATE
        self.sql = text
        tokens = self._tokens = [
            Token(t.token_type, t.text, t.line, t.col, t.start, t.end, t.comments) for t in tokens
        ]  # the parser may change token types
        self._tokens_size = len(tokens)
        self._index = -1
        self.findings: list[Problem] = []
        self.miscount: Problem | None = None
        """A call with a wrong number of arguments. It is reported if the parser then fails to read the text in another
        form."""
        self.stream_selects = stream_selects
        self.placeholders = 0
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if token.token_type == TokenType.WINDOW and _names_window(before, after):
                token.token_type = TokenType.VAR
        self._advance()

    def _token(self, ahead: int) -> Token | None:
        index = self._index + ahead
        return self._tokens[index] if 0 <= index < self._tokens_size else None

    # -- errors -------------------------------------------------------------------------------------------------------

    def raise_error(self, message: str, token: Token | None = None) -> NoReturn:
        """Convert an error of sqlglot to one of Belvedere, at its token."""
        at = token or self._curr
        raise describe(message, at if at else None, self._prev)

    def refuse(self, code: str, message: str, token: Token | None = None, *, hint: str | None = None) -> NoReturn:
        """Raise an error at a token (the current one, or the end of the last) and end the statement."""
        at = token or self._curr
        if at:
            raise Problem(code, message, at.start, at.end + 1, hint)
        end = self._prev.end + 1 if self._prev else 0
        raise Problem(code, message, end, end, hint)

    def expected(self, what: str, hint: str | None = None) -> NoReturn:
        """Raise the error that something else was expected here."""
        self.refuse("B1001", f"expected {what}, found {shown(self._curr)}", hint=hint)

    def refuse_chained(self, word: Token, first: Token) -> None:
        """Raise Spark's error with Belvedere's message."""
        of = "" if word.token_type == TokenType.NOT else "a condition with "
        message = f"{shown(word)} cannot follow {of}`{first.text.upper()}`"
        self.refuse("B1001", message, word, hint="put the condition into brackets")

    def refuse_bang(self, word: Token) -> None:
        self.refuse("B1001", "`!` is not allowed for NOT inside a condition", word, hint="write NOT")

    def refuse_fraction(self, number: Token, suffix: str) -> None:
        """Raise an error: Spark reads `1e2L` as a name, and rejects `1.5L`."""
        message = f"`{number.text}{suffix}` is not a whole number, as the suffix `{suffix}` requires"
        self.refuse(
            "B1001", message, number, hint=f"write CAST({number.text} AS BIGINT), or a whole number before `{suffix}`"
        )

    # -- positions ----------------------------------------------------------------------------------------------------

    def _covered(self, node: Any, first: Token) -> Any:
        """Record that `node` extends from `first` to the token just read."""
        if isinstance(node, exp.Expr) and first and self._prev:
            node.meta["start"], node.meta["end"] = first.start, self._prev.end
        return node

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first, index = self._curr, self._index
        called = self._next is not None and self._next.token_type == TokenType.L_PAREN
        problem = miscount(self._tokens, index) if called else None
        try:
            node = super()._parse_function_call(*args, **kwargs)
        except (ParseError, ValueError, TypeError, AttributeError, IndexError, KeyError):
            if problem is None:
                raise
            self.miscount = self.miscount or problem
            raise problem from None
        if node is not None and problem is not None:
            self.miscount = self.miscount or problem
            raise problem
        return self._covered(node, first)  # type: ignore[no-any-return]

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        """Validate as sqlglot does, and check that the node holds each written argument."""
        node = super().validate_expression(expression, args)
        for argument in args or ():
            if isinstance(argument, exp.Expr) and argument.parent is None and not _is_kept_as_word(node, argument):
                start = argument.meta.get("start", self._prev.start)
                hint = "remove it, or write a literal"
                raise Problem(
                    "B3015", "this argument has no effect", start, argument.meta.get("end", self._prev.end) + 1, hint
                )
        return node

    _parse_types = _covering("_parse_types")
    _parse_primary = _covering("_parse_primary")
    _parse_where = _covering("_parse_where")
    _parse_group = _covering("_parse_group")
    _parse_sort = _covering("_parse_sort")

    def _parse_atom(self) -> exp.Expr | None:
        first = self._curr
        node = super()._parse_atom()
        return node if node is None or "start" in node.meta else self._covered(node, first)

    def build_cast(self, strict: bool, **kwargs: Any) -> exp.Expr:
        node = super().build_cast(strict, **kwargs)
        node.this.meta.update(kwargs["this"].meta)  # `1.5BD` is parsed as a text
        return node

    def _parse_limit(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        first = self._curr
        node: exp.Expr | None = super()._parse_limit(*args, **kwargs)
        return self._covered(node, first) if isinstance(node, exp.Limit | exp.Fetch) else node

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        first = self._curr
        join = self._covered(super()._parse_join(*args, **kwargs), first)
        if join is not None and self._prev.token_type in (TokenType.ON, TokenType.USING):
            self.refuse("B1002", f"a condition is missing after {self._prev.text.upper()}")
        return join  # type: ignore[no-any-return]

    def _parse_join_parts(self) -> Any:
        """Parse as sqlglot does; LEFT is also allowed before ASOF."""
        left = self._curr
        before = left and left.token_type == TokenType.LEFT and self._next and self._next.token_type == TokenType.ASOF
        if before:
            self._advance()
        method, side, kind = super()._parse_join_parts()
        return method, left if before else side, kind

    def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
        """Parse as sqlglot does; a comma without an item after it is an error."""

        def parse() -> Any:
            comma = self._prev if self._prev and self._prev.token_type == sep else None
            item = parse_method()
            if item is None and comma is not None and self._prev is comma:
                self.refuse("B1002", "something is missing after the comma", comma, hint="remove the comma")
            return item

        return super()._parse_csv(parse, sep)

    def _parse_placeholder(self) -> exp.Expr | None:
        first = self._curr
        node = self._covered(super()._parse_placeholder(), first)
        if isinstance(node, exp.Placeholder) and not node.this and "index" not in node.meta:
            node.meta["index"] = self.placeholders
            self.placeholders += 1
        return node  # type: ignore[no-any-return]
