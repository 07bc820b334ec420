"""Operators with the precedence of Spark's grammar (`SqlBaseParser.g4`), which differs from that of sqlglot.

In: tokens. Out: sqlglot trees. The levels, from the loosest:

- OR, AND, NOT
- one predicate (IS, IN, LIKE, BETWEEN, ...)
- all comparisons on one level
- `|`, `^`, `&`, shifts
- `+ - ||`, `* / % DIV`, signs

All binary operators associate to the left. A predicate is not an operand of an operator or of another predicate unless
it is in brackets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.spark_sql.time_patterns import BUILDERS

COMPARISON, BIT_OR, BIT_XOR, BIT_AND, SHIFT, SUM, PRODUCT, SIGN = range(5, 13)
"""Levels, as in `belvedere.spark_sql.brackets`: a higher level binds tighter."""


SHORT = 16
"""Maximum number of conditions in a chain that is not rebalanced."""


class BinaryOperator(NamedTuple):
    """A binary operator: its number of tokens, its level, and the constructor of its node."""

    tokens: int
    level: int
    make: Callable[[exp.Expr, exp.Expr], exp.Expr]


def _binary(kind: type[exp.Expr], **arguments: Any) -> Callable[[exp.Expr, exp.Expr], exp.Expr]:
    return lambda left, right: kind(this=left, expression=right, **arguments)


def _unsigned_shift(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="shiftrightunsigned", expressions=[left, right])


OPERATORS: dict[TokenType, BinaryOperator] = {
    TokenType.EQ: BinaryOperator(1, COMPARISON, _binary(exp.EQ)),
    TokenType.NEQ: BinaryOperator(1, COMPARISON, _binary(exp.NEQ)),
    TokenType.NULLSAFE_EQ: BinaryOperator(1, COMPARISON, _binary(exp.NullSafeEQ)),
    TokenType.GT: BinaryOperator(1, COMPARISON, _binary(exp.GT)),
    TokenType.GTE: BinaryOperator(1, COMPARISON, _binary(exp.GTE)),
    TokenType.LT: BinaryOperator(1, COMPARISON, _binary(exp.LT)),
    TokenType.LTE: BinaryOperator(1, COMPARISON, _binary(exp.LTE)),
    TokenType.PIPE: BinaryOperator(1, BIT_OR, _binary(exp.BitwiseOr)),
    TokenType.CARET: BinaryOperator(1, BIT_XOR, _binary(exp.BitwiseXor)),
    TokenType.AMP: BinaryOperator(1, BIT_AND, _binary(exp.BitwiseAnd)),
    TokenType.PLUS: BinaryOperator(1, SUM, _binary(exp.Add)),
    TokenType.DASH: BinaryOperator(1, SUM, _binary(exp.Sub)),
    TokenType.DPIPE: BinaryOperator(1, SUM, _binary(exp.DPipe, safe=False)),
    TokenType.STAR: BinaryOperator(1, PRODUCT, _binary(exp.Mul)),
    TokenType.SLASH: BinaryOperator(1, PRODUCT, _binary(exp.Div, typed=False, safe=True)),
    TokenType.MOD: BinaryOperator(1, PRODUCT, _binary(exp.Mod)),
    TokenType.DIV: BinaryOperator(1, PRODUCT, _binary(exp.IntDiv)),
}
SHIFTS = {
    (TokenType.LT, 2): BinaryOperator(2, SHIFT, _binary(exp.BitwiseLeftShift)),
    (TokenType.GT, 2): BinaryOperator(2, SHIFT, _binary(exp.BitwiseRightShift)),
    (TokenType.GT, 3): BinaryOperator(3, SHIFT, _unsigned_shift),
}
PREDICATES = frozenset(
    (
        TokenType.IS,
        TokenType.IN,
        TokenType.LIKE,
        TokenType.ILIKE,
        TokenType.RLIKE,
        TokenType.BETWEEN,
        TokenType.ISNULL,
        TokenType.NOTNULL,
    )
)


WRITTEN = "as_written"
"""Key of the text as written, where the spelling has an effect in Spark.

For a call it is its name, in the meta, if a synonym gives other digits. For the number `7S` it is an argument of the
cast, because CAST(7 AS SMALLINT) does not equal it.
"""
WHOLE_SUFFIXES = frozenset("YSL")
"""Suffixes of integers that define their type."""
BY_DIGITS = frozenset("SL")
"""Suffixes whose number Spark types by its digits next to a decimal: `1.5 + 7S` is DECIMAL(3, 1), `1.5 + 7Y` a wider
one."""


def _logarithm(name: str, base: int) -> Callable[[list[Any]], exp.Expr]:
    def build(arguments: list[Any]) -> exp.Expr:
        call = exp.Log(this=exp.Literal.number(base), expression=arguments[0] if arguments else None)
        call.meta[WRITTEN] = name  # calls of sqlglot accept no further arguments
        return call

    return build


class OperatorParser(SparkParser):
    """Spark parser with Spark's operator levels, and calls that keep all that is written."""

    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **{
            name: build for name, build in SparkParser.FUNCTIONS.items() if name != "STR_TO_DATE"
        },  # functions of MySQL with other patterns
        **BUILDERS,
        **{name: _logarithm(name, base) for name, base in (("LOG10", 10), ("LOG2", 2))},
    }

    COLUMN_OPERATORS: ClassVar[dict[TokenType, Any]] = {
        **SparkParser.COLUMN_OPERATORS,
        TokenType.DCOLON: lambda self, this, to: self._cast(this, to),
    }

    def _ahead(self, places: int) -> Token | None:
        at = self._index + places
        return self._tokens[at] if 0 <= at < self._tokens_size else None

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _parse_disjunction(self) -> exp.Expr | None:
        return self._joined(super()._parse_disjunction, exp.Or)

    def _parse_conjunction(self) -> exp.Expr | None:
        return self._joined(super()._parse_conjunction, exp.And)

    @staticmethod
    def _joined(parse: Callable[[], exp.Expr | None], kind: type[exp.Connector]) -> exp.Expr | None:
        """Parse a chain of conditions into a balanced tree, as Spark does: a thousand conditions are ten levels."""
        whole_chain = found = parse()
        parts: list[Any] = []
        while type(found) is kind:
            parts.append(found.expression)
            found = found.this
        whole = [found, *reversed(parts)]
        return _balanced(kind, whole) if len(whole) > SHORT else whole_chain

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        """Parse NOT before a condition, else an operand with at most one predicate."""
        if self._match(TokenType.NOT):
            return self.expression(exp.Not(this=self._parse_equality()))
        this = self._operand(COMPARISON)
        return self._predicate(this) if this is not None and parse_is else this

    def _parse_comparison(self, this: exp.Expr | None = None) -> exp.Expr | None:
        return this or self._operand(COMPARISON)

    def _parse_bitwise(self) -> exp.Expr | None:
        """Parse an operand of a predicate, including comparisons."""
        return self._operand(COMPARISON)

    def _parse_range(self, this: exp.Expr | None = None, parse_is: bool = False) -> exp.Expr | None:
        this = this or self._operand(COMPARISON)
        return self._predicate(this) if this is not None else None

    def _predicate(self, this: exp.Expr) -> exp.Expr:
        index, word = self._index, self._curr
        negate = self._match(TokenType.NOT)
        found: exp.Expr | None
        if self._match(TokenType.ISNULL) or (negate and self._match(TokenType.NULL)):
            found = exp.Is(this=this, expression=exp.Null())
        elif self._match(TokenType.NOTNULL):
            found = exp.Not(this=exp.Is(this=this, expression=exp.Null()))
        elif self._match_set(self.RANGE_PARSERS):
            found = self.RANGE_PARSERS[self._prev.token_type](self, this)
        else:
            found = None
        if found is None:
            self._retreat(index)
            return this
        bang = next(
            (t for t in self._tokens[index : index + 2] if t.token_type == TokenType.NOT and t.text == "!"), None
        )
        if bang is not None and (negate or word.token_type == TokenType.IS):
            self.refuse_bang(bang)
        found = self._negate_range(found) if negate else found
        assert found is not None
        self._refuse_second(index)
        return found

    def _refuse_second(self, index: int) -> None:
        """Reject an operator or a second predicate after a predicate: other parsers read it differently."""
        if not self._curr:
            return
        kind, word = self._curr.token_type, self._curr
        after = self._ahead(1)
        negated = kind == TokenType.NOT and after is not None and after.token_type in PREDICATES
        if kind in PREDICATES or negated or self._operator() is not None:
            self.refuse_chained(word, self._tokens[index])

    def refuse_chained(self, word: Token, first: Token) -> None:
        """Raise a parse error: an operator follows a predicate, or NOT follows an operator."""
        self.raise_error(f"`{word.text}` cannot follow `{first.text}`", word)

    def refuse_bang(self, word: Token) -> None:
        """Raise a parse error: Spark allows `!` only before a whole condition."""
        self.raise_error("`!` is not allowed for NOT inside a condition", word)

    def refuse_fraction(self, number: Token, suffix: str) -> None:
        """Raise a parse error: a number that is not an integer has an integer suffix."""
        self.raise_error(f"`{number.text}{suffix}` is not a whole number", number)

    def _parse_is_rhs(self, distinct: bool = False) -> exp.Expr | None:
        return self._operand(COMPARISON) if distinct else super()._parse_is_rhs(distinct)

    # -- literals -----------------------------------------------------------------------------------------------------

    def _parse_dcolon(self) -> exp.Expr | None:
        """Parse the type after `::`, which the tokenizer also inserts between a number and its suffix."""
        number, suffix = self._ahead(-2), self._curr.text.upper()
        to = super()._parse_dcolon()
        if to is None or number is None or number.token_type != TokenType.NUMBER or suffix not in WHOLE_SUFFIXES:
            return to
        if not number.text.isdigit():
            self.refuse_fraction(number, suffix)
        if suffix in BY_DIGITS:
            to.set(WRITTEN, number.text + suffix)  # `_cast` reads it
        return to

    def _cast(self, this: exp.Expr, to: exp.Expr) -> exp.Expr:
        cast = self.build_cast(strict=self.STRICT_CAST, this=this, to=to)
        if WRITTEN in to.args:
            cast.set(WRITTEN, to.args.pop(WRITTEN))
        return cast

    # -- values -------------------------------------------------------------------------------------------------------

    def _operator(self) -> BinaryOperator | None:
        """Return the binary operator that begins here, or None. The signs of a shift must touch: `a < <b` has
        no shift."""
        kind = self._curr.token_type if self._curr else None
        if kind not in (TokenType.LT, TokenType.GT):
            return OPERATORS.get(kind) if kind is not None else None
        length = 1
        while (
            (token := self._ahead(length)) is not None
            and token.token_type == kind
            and token.start == self._curr.start + length
        ):
            length += 1
        return SHIFTS.get((kind, min(length, 3 if kind == TokenType.GT else 2)), OPERATORS[kind])

    def _operand(self, least: int) -> exp.Expr | None:
        """Parse an operand made of operators of level `least` or higher."""
        this = self._parse_unary()
        while this is not None and (operator := self._operator()) is not None and operator.level >= least:
            word, comments = self._curr, self._curr.comments
            index = self._index
            self._advance(operator.tokens)
            right = self._operand(operator.level + 1)
            if right is None:
                if word.token_type == TokenType.DIV:  # DIV is an alias here
                    self._retreat(index)
                    return this
                self.raise_error("Required argument 'expression' missing")
            this = self.expression(operator.make(this, right), comments=comments)  # type: ignore[arg-type]
        return this

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        return self._operand(SUM) if parse_mod else super()._parse_term(parse_mod)

    def _parse_unary(self) -> exp.Expr | None:
        """Parse signs, and COLLATE, which binds tighter. NOT is only allowed before a whole condition."""
        if self._curr and self._curr.token_type == TokenType.NOT:
            self.refuse_chained(self._curr, self._prev)
        if self._curr and self._curr.token_type in self.UNARY_PARSERS:
            return super()._parse_unary()
        this = self._parse_at_time_zone(self._parse_type())
        while self._match(TokenType.COLLATE):
            collate = exp.Collate(this=this, expression=self._parse_unary())
            self._normalize_collate(collate)
            this = self.expression(collate)
        return this

    def _signed(self) -> exp.Expr:
        """Parse a sign: `+x` converts a text to a number, as `positive(x)` does; `+7` is the literal, also where a
        literal is required."""
        inner = self._parse_unary()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return inner
        return self.expression(exp.Anonymous(this="positive", expressions=[inner] if inner is not None else []))

    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **{
            k: v for k, v in SparkParser.UNARY_PARSERS.items() if k not in (TokenType.PIPE_SLASH, TokenType.DPIPE_SLASH)
        },
        TokenType.PLUS: lambda self: self._signed(),
    }


def without_plus(node: exp.Expr) -> exp.Expr:
    """Return the operand of a plus sign; any other node unchanged."""
    if isinstance(node, exp.Anonymous) and node.name == "positive" and len(node.expressions) == 1:
        found: exp.Expr = node.expressions[0]
        return found
    return node


def _balanced(kind: type[exp.Connector], parts: list[Any]) -> exp.Expr:
    """Return a balanced tree of the parts in their order."""
    if len(parts) == 1:
        only: exp.Expr = parts[0]
        return only
    half = len(parts) // 2
    return kind(this=_balanced(kind, parts[:half]), expression=_balanced(kind, parts[half:]))
