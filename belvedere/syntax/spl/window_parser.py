"""SPL's window clause in its three spellings.

In: the parser, at a position where a clause may begin. Out: `SplClause`s. The spellings are `FROM t WINDOW (sliding,
count(4))`, `FROM t AS C WINDOW C : sliding, count(4) [PARTITION BY k]; D : ...` and `FROM t WITH (window = 'sliding,
count(4)', partitionBy = 'k')`. A clause is SPL's only if it begins with one of SPL's kinds; `WINDOW w AS (...)` remains
SQL's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from belvedere.syntax.positioned_parser import PositionedParser
from belvedere.syntax.spl.window_tree import SplClause, SplPart
from belvedere.syntax.spl.window_words import FORGETTING, INTERVALS, KINDS, OPTIONS, PARTITION_BY, WORDS
from belvedere.syntax.wording import nearest_name

NUMBER = re.compile(r"(?P<value>[+-]?\s*(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)(?P<suffix>ul|lu|[usilbfdw])?", re.IGNORECASE)
"""Number with SPL's numeric suffix (`10u`, `5.0f`), which is accepted and ignored."""
KIND_HINT = "write WINDOW (tumbling, ...), WINDOW (sliding, ...) or WINDOW (timeInterval, ...)"
OPTION_FORM = "write WITH (window = 'sliding, count(4)', partitionBy = 'k', aggregateIncompleteWindows = true)"


def is_kind(token: Token | None) -> bool:
    """Return whether a token is one of SPL's window kinds."""
    return (
        token is not None
        and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        and token.text.lower() in KINDS
    )


def labelled(tokens: Sequence[Token | None]) -> bool:
    """Return whether `label : kind` begins here."""
    name, colon, kind = (*tokens, None, None, None)[:3]
    return name is not None and colon is not None and colon.token_type == TokenType.COLON and is_kind(kind)


def at_suffix(parser: PositionedParser) -> bool:
    """Return whether `WINDOW (kind ...` is next."""
    if not _is_word(parser._curr, "WINDOW") or not _is(parser._token(1), TokenType.L_PAREN):
        return False
    return is_kind(parser._token(2)) or labelled([parser._token(n) for n in (2, 3, 4)])


def at_clause(parser: PositionedParser) -> bool:
    """Return whether `WINDOW label : kind ...` is next."""
    return _is_word(parser._curr, "WINDOW") and labelled([parser._token(n) for n in (1, 2, 3)])


def at_options(parser: PositionedParser) -> bool:
    """Return whether `WITH (window = ...` is next."""
    return (
        _is(parser._curr, TokenType.WITH)
        and _is(parser._token(1), TokenType.L_PAREN)
        and _is_word(parser._token(2), "WINDOW")
        and _is(parser._token(3), TokenType.EQ)
    )


def mentions_window(tokens: Sequence[Token]) -> bool:
    """Return whether a statement contains an SPL window."""
    for n, token in enumerate(tokens):
        if _is_word(token, "WINDOW"):
            after = tokens[n + 1 : n + 6]
            if _is(after[0] if after else None, TokenType.L_PAREN):
                after = after[1:]
            if (
                is_kind(after[0] if after else None)
                or labelled(after)
                or _is(after[0] if after else None, TokenType.EQ)
            ):
                return True
    return False


def refuse_other(parser: PositionedParser) -> None:
    """Reject `WINDOW (` or `WINDOW label :` followed by a word that is not a window kind."""
    curr, first = parser._curr, parser._token(1)
    if not _is_word(curr, "WINDOW") or first is None:
        return
    at = 2 if _is(first, TokenType.L_PAREN) else 1
    if _is(parser._token(at + 1), TokenType.COLON):
        at += 2
    elif at == 1:
        return
    word = parser._token(at)
    if is_kind(word):
        return
    if word is not None and (word.text.lower() in WORDS or nearest_name(word.text, tuple(KINDS.values()))):
        parser.refuse("B5201", f"a window cannot begin with `{word.text}`", word, hint=KIND_HINT)
    if _is(first, TokenType.L_PAREN):
        hint = "write WINDOW (sliding, ...), Tumble(...) or Hop(...) in FROM, or OVER (...) in the SELECT list"
        parser.refuse("B1001", "WINDOW (...) is not allowed after this table", hint=hint)


def parse_suffix(parser: PositionedParser) -> SplClause:
    """Parse `WINDOW (sliding, time(10), count(5), partitioned BY sym)`."""
    first = parser._curr
    parser._advance(2)
    clause = _clause(parser)
    if not parser._match(TokenType.R_PAREN):
        parser.expected("`,` or `)`", "the parts of a window are separated by commas")
    return parser._covered(clause, first)  # type: ignore[no-any-return]


def parse_clauses(parser: PositionedParser) -> list[SplClause]:
    """Parse `WINDOW C : sliding, time(10), count(5); D : tumbling, delta(i, 10)`: one clause per label."""
    parser._advance()
    clauses = []
    while True:
        first = parser._curr
        clauses.append(parser._covered(_clause(parser), first))
        following = [parser._token(n) for n in (1, 2, 3)]
        if not _is(parser._curr, TokenType.SEMICOLON) or not labelled(following):
            return clauses
        parser._advance()


def _clause(parser: PositionedParser) -> SplClause:
    clause = SplClause(expressions=[])
    if labelled([parser._token(n) for n in (0, 1, 2)]):
        named = parser._curr
        parser._advance()
        clause.set("label", parser._covered(exp.to_identifier(named.text), named))
        parser._advance()
    while True:
        _take_part(parser, clause)
        if not parser._match(TokenType.COMMA):
            break
    if _is(parser._curr, TokenType.PARTITION_BY):
        _take_part(parser, clause)
    return clause


def _take_part(parser: PositionedParser, clause: SplClause) -> None:
    first = parser._curr
    if _is(first, TokenType.PARTITION_BY):
        parser._advance()
        if clause.keys:
            parser.refuse("B5208", "the partitions are given twice", first, hint="keep one PARTITION BY")
        if first.text.upper().startswith("PARTITIONED"):
            clause.append("expressions", parser._covered(SplPart(this="partitioned"), first))
        clause.set("keys", _keys(parser))
        return
    if not first or not first.text.isidentifier():
        parser.expected("a part of the window", "write count(n), time(s), delta(column, step), partitioned, ...")
    parser._advance()
    part = SplPart(this=first.text)
    if parser._match(TokenType.L_PAREN):
        part.set("called", True)
        part.set("expressions", _arguments(parser))
        if not parser._match(TokenType.R_PAREN):
            parser.expected("`)`")
    elif parser._match_set((TokenType.EQ, TokenType.COLON)):
        part.set("value", parser._parse_primary())
    clause.append("expressions", parser._covered(part, first))


def _keys(parser: PositionedParser) -> list[exp.Expr]:
    """Parse the expressions of PARTITION BY, up to the next part of the clause."""
    keys: list[exp.Expr] = []
    while True:
        key = parser._parse_disjunction()
        if key is None:
            parser.expected("a column to partition by")
        keys.append(key)
        after = parser._token(1)
        if not _is(parser._curr, TokenType.COMMA) or (after is not None and _is_part(after)):
            return keys
        parser._advance()


def _is_part(token: Token) -> bool:
    word = token.text.lower()
    return token.token_type != TokenType.IDENTIFIER and (word in OPTIONS or word in FORGETTING or word in INTERVALS)


def _arguments(parser: PositionedParser) -> list[exp.Expr]:
    arguments: list[exp.Expr] = []
    while not _is(parser._curr, TokenType.R_PAREN):
        arguments.append(_argument(parser))
        if not parser._match(TokenType.COMMA):
            break
    return arguments


def _argument(parser: PositionedParser) -> exp.Expr:
    """Parse a number with SPL's suffix, or any expression."""
    first = parser._curr
    ahead = 0
    while (token := parser._token(ahead)) is not None and token.token_type not in (
        TokenType.COMMA,
        TokenType.R_PAREN,
        TokenType.L_PAREN,
        TokenType.SEMICOLON,
    ):
        ahead += 1
    last = parser._token(ahead - 1)
    found = NUMBER.fullmatch(parser.sql[first.start : last.end + 1].strip()) if first and last and ahead else None
    if found is not None:
        parser._advance(ahead)
        value = found["value"].replace(" ", "")
        return parser._covered(exp.Literal.number(value), first)  # type: ignore[no-any-return]
    argument = parser._parse_disjunction()
    if argument is None:
        parser.expected("an argument")
    return parser._covered(argument, first)  # type: ignore[no-any-return]


# -- WITH (window = '...') --------------------------------------------------------------------------------------------


def parse_options(parser: PositionedParser) -> SplClause:
    """Parse `WITH (window = 'C : sliding, count(4), partitioned', partitionBy = 'sym')`."""
    first = parser._curr
    parser._advance(2)
    clause: SplClause | None = None
    keys: list[exp.Expr] = []
    options: list[SplPart] = []
    while True:
        name = parser._curr
        word = name.text.lower() if name else ""
        parser._advance()
        if not parser._match(TokenType.EQ):
            parser.expected("`=`", OPTION_FORM)
        value = parser._curr
        parser._advance()
        if word == "window" and _is(value, TokenType.STRING):
            clause = _clause(_inside(parser, value))
            _place_at(value, clause)
        elif word == PARTITION_BY and _is(value, TokenType.STRING):
            keys = _keys(_inside(parser, value))
            _place_at(value, *keys)
        elif word in OPTIONS:
            part = SplPart(this=name.text, value=exp.Boolean(this=value.text.upper() == "TRUE"))
            options.append(parser._covered(part, name))
        else:
            parser.refuse(
                "B5202", f"`{name.text if name else ''}` is not an option of a window", name, hint=OPTION_FORM
            )
        if not parser._match(TokenType.COMMA):
            break
    if not parser._match(TokenType.R_PAREN):
        parser.expected("`,` or `)`", OPTION_FORM)
    if clause is None:
        parser.refuse("B5201", "the options of a window do not set `window`", first, hint=OPTION_FORM)
    if keys and clause.keys:
        parser.refuse("B5208", "the partitions are given twice", first, hint="keep one of them")
    clause.set("keys", keys or clause.keys or None)
    for option in options:
        clause.append("expressions", option)
    return parser._covered(clause, first)  # type: ignore[no-any-return]


def _inside(parser: PositionedParser, text: Token) -> PositionedParser:
    """Return a parser of the contents of a string. Its errors have approximate positions in the script."""
    inner: Any = parser.dialect.parser()
    padded = " " * (text.start + 1) + text.text
    inner.begin(list(parser.dialect.tokenize(padded)), padded)
    if not inner._curr:
        parser.refuse("B5201", "the text of the window is empty", text, hint=OPTION_FORM)
    return inner  # type: ignore[no-any-return]


def _place_at(text: Token, *trees: exp.Expr) -> None:
    """Set the positions of trees parsed from a string to those of the string."""
    for node in (n for tree in trees for n in tree.walk()):
        node.meta["start"], node.meta["end"] = text.start, text.end


def _is(token: Token | None, kind: TokenType) -> bool:
    return bool(token) and token is not None and token.token_type == kind


def _is_word(token: Token | None, word: str) -> bool:
    return (
        token is not None
        and token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING)
        and token.text.upper() == word
    )
