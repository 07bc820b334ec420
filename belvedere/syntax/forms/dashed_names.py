"""Names with dashes, allowed without quotes where only the name of a table or source is possible: `IMPORT
data-catalog.Orders`.

In: a file's tokens. Out: the tokens, with each such name as one token. Elsewhere `a-b` is a difference. The positions
are:

- after IMPORT, EXPORT and its TO, CREATE TABLE and similar words
- after FROM and JOIN of a query, and DISTINCT of `:= DISTINCT T ON`
- before `:=`
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot.tokenizer_core import Token, TokenType

CREATED = ("TABLE", "STREAM", "VIEW", "SUBSCRIPTION")
NAMED = (TokenType.VAR, TokenType.IDENTIFIER)
OPENS = (TokenType.L_PAREN, TokenType.L_BRACKET)
CLOSES = (TokenType.R_PAREN, TokenType.R_BRACKET)


def join_dashes(tokens: list[Token]) -> list[Token]:
    """Return the tokens, with each name of several words and dashes as one quoted name."""
    if not any(_is_joint(tokens, i) for i in range(1, len(tokens) - 1)):
        return tokens
    ends = dict(_names(tokens, {*_after_words(tokens), *_before_definitions(tokens)}))
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        end = ends.get(i, i)
        result.append(_joined(tokens[i : end + 1]) if end > i else tokens[i])
        i = end + 1
    return result


def _touches(tokens: list[Token], i: int) -> bool:
    """Return whether a token directly follows the previous one."""
    return tokens[i - 1].end + 1 == tokens[i].start


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.VAR or (
        token.token_type not in (TokenType.STRING, *NAMED) and token.text.isidentifier()
    )


def _is_joint(tokens: list[Token], i: int) -> bool:
    """Return whether a token is a dash that joins two words."""
    if tokens[i].token_type != TokenType.DASH or not (_touches(tokens, i) and _touches(tokens, i + 1)):
        return False
    following = tokens[i + 1]
    digits = following.token_type == TokenType.NUMBER and following.text.isdigit()
    return (_is_word(tokens[i - 1]) or tokens[i - 1].text.isdigit()) and (_is_word(following) or digits)


def _names(tokens: list[Token], paths: set[int]) -> Iterator[tuple[int, int]]:
    """Yield the start and end of the dashed parts of the paths that begin at these positions."""
    for first in paths:
        i = first
        while i < len(tokens) and (_is_word(tokens[i]) or tokens[i].token_type in NAMED):
            end = i
            while end + 2 < len(tokens) and _is_joint(tokens, end + 1):
                end += 2
            if end > i:
                yield i, end
            if end + 2 >= len(tokens) or tokens[end + 1].token_type != TokenType.DOT:
                break
            i = end + 2


def _after_words(tokens: list[Token]) -> Iterator[int]:
    """Yield the positions after words that precede the name of a table or source."""
    selected = [False]
    statement = ""
    for i, token in enumerate(tokens[:-1]):
        word = token.text.upper()
        before = tokens[i - 1] if i else None
        if token.token_type in OPENS:
            selected.append(False)
        elif token.token_type in CLOSES and len(selected) > 1:
            selected.pop()
        elif token.token_type == TokenType.SEMICOLON:
            selected, statement = [False], ""
        elif word in ("IMPORT", "EXPORT") and (before is None or before.line < token.line or not statement):
            statement = word
            yield i + 1
        elif word in ("AS", "TO") and statement == {"AS": "IMPORT", "TO": "EXPORT"}[word]:
            yield i + 1
        elif word in CREATED and before is not None and _creates(tokens, i):
            statement = "CREATE"
            yield i + 1
        elif token.token_type == TokenType.SELECT:
            selected[-1] = True
        elif (
            token.token_type == TokenType.JOIN
            or (token.token_type == TokenType.FROM and selected[-1] and not _compares(before))
            or (
                token.token_type == TokenType.DISTINCT
                and before is not None
                and before.token_type == TokenType.COLON_EQ
            )
        ):
            yield i + 1
        if token.token_type == TokenType.COLON_EQ:
            statement = ":="


def _creates(tokens: list[Token], i: int) -> bool:
    return any(t.token_type == TokenType.CREATE and t.line == tokens[i].line for t in tokens[max(0, i - 3) : i])


def _compares(before: Token | None) -> bool:
    """Return whether the token before is part of `a IS DISTINCT FROM b`."""
    return before is not None and before.token_type == TokenType.DISTINCT


def _before_definitions(tokens: list[Token]) -> Iterator[int]:
    """Yield the positions of paths before `:=`: `order-items.total := ...`."""
    for i, token in enumerate(tokens):
        if token.token_type != TokenType.COLON_EQ or i == 0:
            continue
        first = i - 1
        if tokens[first].token_type == TokenType.R_PAREN:
            depth = 0
            while first > 0 and (depth := depth + _depth(tokens[first])) > 0:
                first -= 1
            first -= 1
        while first > 0 and _touches(tokens, first) and tokens[first - 1].token_type != TokenType.SEMICOLON:
            first -= 1
        if first >= 0:
            yield first


def _depth(token: Token) -> int:
    return (token.token_type == TokenType.R_PAREN) - (token.token_type == TokenType.L_PAREN)


def _joined(parts: list[Token]) -> Token:
    first, last = parts[0], parts[-1]
    text = "".join(p.text for p in parts)
    comments = [c for p in parts for c in p.comments or ()]
    return Token(TokenType.IDENTIFIER, text, first.line, last.col, first.start, last.end, comments)
