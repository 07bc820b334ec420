"""Number of arguments of a call, checked on tokens: the parser drops some surplus arguments.

In: the tokens of a statement, and the position of a name with a bracket. Out: a problem, or None. Calls with words
inside, such as `substring(x FROM 2)`, are left to the parser.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from belvedere.errors import counted
from belvedere.functions.function import MANY
from belvedere.functions.function_table import ARITY
from belvedere.syntax.positions import CLOSING, OPENING
from belvedere.syntax.problems import Problem

_OWN_WORDS = {
    TokenType.FROM,
    TokenType.IN,
    TokenType.ALIAS,
    TokenType.USING,
    TokenType.FOR,
    TokenType.SELECT,
    TokenType.WITH,
    TokenType.VALUES,
}
_NO_CALL_AFTER = {TokenType.DOT, TokenType.LIKE, TokenType.ILIKE}  # a method; ANY (...) and SOME (...)
_WITH_UNIT = frozenset(("date_add", "dateadd", "date_diff", "datediff", "timestampadd", "timestampdiff"))
_UNITS = frozenset("YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND".split())
_WITH_PARTS = {TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT}
_PAIRED = frozenset(("map", "named_struct"))
_AFTER_ARGUMENTS = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.HAVING}


def miscount(tokens: Sequence[Token], at: int) -> Problem | None:
    """Return the problem with the number of arguments of the call whose name is the token at `at`, or None."""
    name = tokens[at].text.lower()
    distinct = at + 2 < len(tokens) and tokens[at + 2].token_type == TokenType.DISTINCT
    least, most = ARITY.get(name, (0, MANY))
    least = max(least, min(most, int(distinct)))  # DISTINCT precedes a value
    if at and tokens[at - 1].token_type in _NO_CALL_AFTER:
        return None
    given, end = _given(tokens, at + 2 + distinct)
    if given == 3 and name in _WITH_UNIT:
        return _wrong_unit(tokens[at + 2])
    if given is None or (least <= given <= most and not (name in _PAIRED and given % 2)):
        return None
    message = f"`{name}` does not take {_said((given, given))}" if given else f"`{name}` needs an argument"
    hint = "it takes pairs of arguments" if name in _PAIRED else f"it takes {_said((least, most))}"
    return Problem("B3002", message, tokens[at].start, end, hint)


def _wrong_unit(unit: Token) -> Problem | None:
    """Return the problem with the unit of `timestampadd(DAY, 1, t)` and similar calls, which must be a word, or
    None."""
    if unit.token_type != TokenType.STRING and unit.text.upper() in _UNITS:
        return None
    shown = f"'{unit.text}'" if unit.token_type == TokenType.STRING else f"`{unit.text}`"
    return Problem(
        "B3048",
        f"{shown} is not a unit",
        unit.start,
        unit.end + 1,
        "write one of the words YEAR, MONTH, DAY, HOUR, ...",
    )


def _given(tokens: Sequence[Token], first: int) -> tuple[int | None, int]:
    """Return the number of arguments that begin at `first`, and the position of the closing bracket; None if words
    separate them.
    """
    depth, given, counting, angles = 0, 1, True, -1
    for n in range(first, len(tokens)):
        kind = tokens[n].token_type
        if kind in CLOSING and depth == 0:
            return (given if n > first else 0), tokens[n].end + 1
        if kind == TokenType.LT and tokens[n - 1].token_type in _WITH_PARTS:
            angles = 0  # inside a type
        angles += (kind == TokenType.LT) - (kind == TokenType.GT) if angles >= 0 else 0
        angles = angles if angles > 0 else -1
        depth += (kind in OPENING) - (kind in CLOSING)
        if depth == 0 and kind in _OWN_WORDS:
            return None, 0
        counting = counting and not (depth == 0 and kind in _AFTER_ARGUMENTS)
        given += counting and depth == 0 and angles < 0 and kind == TokenType.COMMA
    return None, 0


def _said(counts: tuple[int, int]) -> str:
    """Return the numbers in words: `2 arguments`, `1 to 3 arguments`."""
    least, most = counts
    if least == most:
        return counted(least, "argument") if least else "no arguments"
    if most == MANY:
        return f"{counted(least, 'argument')} or more"
    return f"{least} {'or' if most == least + 1 else 'to'} {most} arguments"
