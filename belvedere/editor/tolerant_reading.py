"""Tokens, comments and statements of a text that may be broken.

In: a text. Out: a `ReadText` that finds the token, comment or statement at an offset. `query_blocks` and `name_uses`
interpret names.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from sqlglot.tokenizer_core import Token
from sqlglot.tokenizer_core import TokenType as T

from belvedere.syntax.fmt.spacing import KEYWORD_TYPES
from belvedere.syntax.splitting import Comment, boundaries, doc_text, read_tokens

OPENING, CLOSING = (T.L_PAREN, T.L_BRACKET), (T.R_PAREN, T.R_BRACKET)
STOPS = frozenset(
    (
        "EMIT",
        "WINDOW",
        "FOR",
        "TABLESAMPLE",
        "PIVOT",
        "UNPIVOT",
        "NATURAL",
        "ASOF",
        "MATCH_CONDITION",
        "MINUS",
        "GROUP",
        "ORDER",
    )
)
"""Words besides keywords that end an item of FROM, so they are not aliases."""


@dataclass(frozen=True)
class StatementRange:
    """A statement: its tokens `[lo, hi)`, and the end of its text."""

    lo: int
    hi: int
    start: int
    end: int


@dataclass
class ReadText:
    """Tokens, comments and statements of a text."""

    text: str
    tokens: list[Token]
    comments: list[list[Comment]]
    statements: list[StatementRange]
    closes: dict[int, int] = field(default_factory=dict)
    """Closing bracket of each opening bracket, within a statement."""

    def statement_at(self, offset: int) -> StatementRange | None:
        """Return the statement at an offset: the last one that begins before it, unless a semicolon ends it before."""
        found = [s for s in self.statements if s.start <= offset]
        return found[-1] if found and offset <= found[-1].end else None

    def token_at(self, offset: int) -> int | None:
        """Return the token that contains or ends at an offset. If two meet there, the word is returned."""
        at = bisect_right(self.tokens, offset, key=lambda t: t.start) - 1
        near = [i for i in (at, at - 1) if i >= 0 and self.tokens[i].start <= offset <= self.tokens[i].end + 1]
        return next((i for i in near if is_name(self.tokens[i])), near[0] if near else None)

    def before(self, offset: int) -> int:
        """Return the index of the last token that begins before an offset, or -1."""
        return bisect_right(self.tokens, offset - 1, key=lambda t: t.start) - 1

    def comment_at(self, offset: int) -> Comment | None:
        """Return the comment that contains an offset."""
        for found in self.comments:
            for c in found:
                if c.start < offset < c.end or (offset == c.end and c.line_comment):
                    return c
        return None

    def doc_before(self, lo: int) -> str | None:
        """Return the text of the doc comment directly before a token."""
        return next((doc_text(c.text) for c in reversed(self.comments[lo]) if c.is_doc), None)

    def close(self, opening: int, hi: int) -> int:
        """Return the index of the closing bracket of an opening one, or `hi`."""
        return min(self.closes.get(opening, hi), hi)

    def path_from(self, i: int, hi: int) -> list[int]:
        """Return the names of a dotted path that begins at a token."""
        path = [i]
        while i + 2 < hi and self.tokens[i + 1].token_type == T.DOT and is_word(self.tokens[i + 2]):
            i += 2
            path.append(i)
        return path


def read(text: str, file: str = "") -> ReadText:
    """Read a text. With its `file`, the tokens are those of the file's compile, from the cache."""
    found = read_tokens(text, file)
    ranges = boundaries(text, found.tokens)
    statements = []
    for n, (lo, hi) in enumerate(ranges):
        following = found.tokens[ranges[n + 1][0]].start if n + 1 < len(ranges) else len(text) + 1
        semicolon = hi < len(found.tokens) and found.tokens[hi].token_type == T.SEMICOLON
        end = found.tokens[hi].start if semicolon else following - 1
        statements.append(StatementRange(lo, hi, found.tokens[lo].start, max(end, found.tokens[hi - 1].end + 1)))
    made = ReadText(text, found.tokens, found.comments, statements)
    for statement in statements:
        made.closes.update(_closes(found.tokens, statement))
    return made


def _closes(tokens: list[Token], statement: StatementRange) -> dict[int, int]:
    found, opened = dict[int, int](), list[int]()
    for i in range(statement.lo, statement.hi):
        kind = tokens[i].token_type
        if kind in OPENING:
            opened.append(i)
        elif kind in CLOSING and opened:
            found[opened.pop()] = i
    return found


def is_word(token: Token) -> bool:
    """Return whether a token may be a name where only a name is allowed, as after a dot."""
    return token.token_type in (T.VAR, T.IDENTIFIER) or (
        token.token_type not in (T.STRING, T.NATIONAL_STRING, T.RAW_STRING) and token.text.isidentifier()
    )


def is_name(token: Token) -> bool:
    """Return whether a token may be a name in an expression: a word that is not a keyword, or a quoted one."""
    return token.token_type in (T.VAR, T.IDENTIFIER) or (is_word(token) and token.token_type not in KEYWORD_TYPES)


def may_be_alias(token: Token) -> bool:
    """Return whether a token after an item of FROM is its alias."""
    return token.token_type == T.IDENTIFIER or (is_name(token) and token.text.upper() not in STOPS)


def is_called(read_text: ReadText, i: int, hi: int) -> bool:
    """Return whether a bracket follows a token."""
    return i + 1 < hi and read_text.tokens[i + 1].token_type == T.L_PAREN
