"""`Tumble`, `Hop`, `Cumulate` and `Session` in FROM: argument forms of the paper 'One SQL to Rule Them All', of Calcite
and of Flink.

In: the parser, positioned at the call. Out: `exp.Table(this=WindowCall)` (`belvedere.syntax.query_tree`) with the
call's alias.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.plan.operators.time_window import TimeWindowKind
from belvedere.syntax.positioned_parser import PositionedParser
from belvedere.syntax.query_tree import WindowCall
from belvedere.syntax.wording import did_you_mean


@dataclass(frozen=True)
class CallForm:
    """Arguments of a windowing function: their order, the required ones, and the parser of those after the time
    column."""

    positions: tuple[str, ...]
    required: tuple[str, ...]
    usage: str


FORMS = {
    TimeWindowKind.TUMBLE: CallForm(("dur", "offset", "timezone"), ("dur",), "dur => INTERVAL '10' MINUTES"),
    TimeWindowKind.HOP: CallForm(
        ("hopsize", "dur", "offset", "timezone"),
        ("dur", "hopsize"),
        "dur => INTERVAL '10' MINUTES, hopsize => INTERVAL '5' MINUTES",
    ),
    TimeWindowKind.CUMULATE: CallForm(
        ("hopsize", "dur", "offset", "timezone"),
        ("dur", "hopsize"),
        "dur => INTERVAL '1' DAY, hopsize => INTERVAL '1' HOUR",
    ),
    TimeWindowKind.SESSION: CallForm(
        ("keys", "gap"), ("gap",), "key => DESCRIPTOR(user), gap => INTERVAL '10' MINUTES"
    ),
}
FIRST = ("data", "timecol")
"""The first arguments of each windowing function."""
FUNCTIONS = tuple(kind.upper() for kind in FORMS)
SYNONYMS = {"size": "dur", "slide": "hopsize", "step": "hopsize", "key": "keys", "zone": "timezone"}
FLINK_NAMES = ("size", "slide", "step")


def arguments_of(function: str) -> tuple[str, ...]:
    """Return the arguments of a windowing function (in lower case), by position."""
    return *FIRST, *_form(function).positions


def starts_window_call(current: Token | None, following: Token | None, third: Token | None) -> bool:
    """Return whether a windowing call begins here, directly or as `TABLE(...)`."""
    if not current or not following or following.token_type != TokenType.L_PAREN:
        return False
    if current.token_type == TokenType.TABLE:
        return third is not None and third.text.upper() in FUNCTIONS
    return current.token_type != TokenType.IDENTIFIER and current.text.upper() in FUNCTIONS


def parse_window_call(parser: PositionedParser) -> exp.Table:
    """Parse the call and the alias after it."""
    first = parser._curr
    wrapped = parser._match(TokenType.TABLE)
    if wrapped:
        parser._match(TokenType.L_PAREN)
    name = parser._curr
    parser._advance(2)
    call = _arguments(parser, name)
    parser._match_r_paren()
    if wrapped:
        parser._match_r_paren()
    parser._covered(call, name)
    table = exp.Table(this=call)
    alias = parser._parse_table_alias(alias_tokens=parser.TABLE_ALIAS_TOKENS)
    if alias:
        table.set("alias", alias)
    parser._covered(table, first)
    return table


def _arguments(parser: PositionedParser, function: Token) -> WindowCall:
    name = function.text.lower()
    call = WindowCall(function=name, flink=False)
    position = 0
    while parser._curr and parser._curr.token_type != TokenType.R_PAREN:
        at = parser._curr
        if parser._next and parser._next.token_type == TokenType.FARROW:
            key = _argument_name(parser, name, call)
        else:
            key = _position(parser, name, position)
            call.set("flink", True)
            position += 1
        if call.args.get(key):
            parser.refuse("B5102", f"argument `{key}` is given twice", at, hint="remove one of them")
        call.set(key, _value(parser, key))
        if key == "data" and parser._match(TokenType.PARTITION_BY):
            call.set("keys", _partition(parser))
        if not parser._match(TokenType.COMMA):
            break
    missing = [key for key in (*FIRST, *_form(name).required) if not call.args.get(key)]
    if missing:
        parser.refuse("B5103", f"{function.text} needs the argument `{missing[0]}`", function, hint=_usage(name))
    return call


def _argument_name(parser: PositionedParser, function: str, call: WindowCall) -> str:
    token = parser._curr
    written = token.text.lower()
    key = SYNONYMS.get(written, written)
    known = arguments_of(function)
    if key not in known:
        hint = did_you_mean(written, known) or _usage(function)
        parser.refuse("B5101", f"{function.capitalize()} has no argument `{token.text}`", hint=hint)
    if written in FLINK_NAMES:
        call.set("flink", True)
    parser._advance(2)
    return key


def _position(parser: PositionedParser, function: str, position: int) -> str:
    order = arguments_of(function)
    if function == "session" and position == 2 and parser._curr.text.upper() != "DESCRIPTOR":
        return "gap"
    if position >= len(order):
        parser.refuse("B5101", f"{function.capitalize()} takes at most {len(order)} arguments", hint=_usage(function))
    return order[position]


def _value(parser: PositionedParser, key: str) -> exp.Expr | list[exp.Expr]:
    if key == "data":
        return _data(parser)
    if key in ("timecol", "keys"):
        columns = _columns(parser)
        if key == "keys":
            return columns
        if len(columns) != 1:
            parser.refuse("B5104", "a window takes one time column", parser._prev)
        return columns[0]
    value: exp.Expr | None = parser._parse_disjunction()
    if value is None:
        parser.refuse("B1002", f"argument `{key}` needs an interval")
    return value


def _data(parser: PositionedParser) -> exp.Expr:
    """Parse `TABLE(T)`, `TABLE T`, `TABLE(SELECT ...)`, `(SELECT ...)` or `T`."""
    table_word = parser._match(TokenType.TABLE)
    wrapped = table_word and parser._match(TokenType.L_PAREN)
    if wrapped and parser._curr and parser._curr.token_type in (TokenType.SELECT, TokenType.WITH):
        data: exp.Expr | None = parser._parse_select()
    else:
        data = parser._parse_table(alias_tokens=())
    if wrapped:
        parser._match_r_paren()
    if data is None:
        parser.refuse("B1002", "argument `data` needs a table", hint="write `data => TABLE(Bid)`")
    return data


def _partition(parser: PositionedParser) -> list[exp.Expr]:
    """Parse `PARTITION BY a, b`, which ends before the next argument."""
    columns: list[Any] = [parser._parse_column()]
    while parser._curr and parser._curr.token_type == TokenType.COMMA:
        after = parser._token(1)
        if after is None or after.text.upper() == "DESCRIPTOR" or _is_argument(parser._token(2)):
            break
        parser._advance()
        columns.append(parser._parse_column())
    if not all(isinstance(c, exp.Column) for c in columns):
        parser.refuse("B5104", "PARTITION BY needs the names of columns")
    return columns


def _is_argument(token: Token | None) -> bool:
    return token is not None and token.token_type == TokenType.FARROW


def _columns(parser: PositionedParser) -> list[exp.Expr]:
    wrapped = parser._match_text_seq("DESCRIPTOR")
    if wrapped and not parser._match(TokenType.L_PAREN):
        parser.refuse("B1001", "expected `(` after DESCRIPTOR", hint="write `DESCRIPTOR(bidtime)`")
    columns: list[Any] = parser._parse_csv(parser._parse_column) if wrapped else [parser._parse_column()]
    if wrapped:
        parser._match_r_paren()
    if not columns or not all(isinstance(c, exp.Column) for c in columns):
        parser.refuse("B5104", "a column name is expected here", hint="write `DESCRIPTOR(bidtime)`")
    return columns


def _form(function: str) -> CallForm:
    return FORMS[TimeWindowKind(function)]


def _usage(function: str) -> str:
    last = _form(function).usage
    return f"write `{function.capitalize()}(data => TABLE(T), timecol => DESCRIPTOR(ts), {last})`"
