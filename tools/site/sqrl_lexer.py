"""Syntax highlighting of scripts: Pygments' SQL with the additional words of scripts.

In: the text of a script. Out: Pygments' tokens. `register` makes it the lexer of fences with `sql`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pygments.lexers import LEXERS
from pygments.lexers.sql import SqlLexer
from pygments.token import Keyword, Name, Token

__all__ = ["SqrlLexer"]  # Pygments looks for it in a module of lexers

WORDS = frozenset(
    "IMPORT EXPORT STREAM SUBSCRIPTION SUBSCRIBE DISTINCT KEEP LATE WATERMARK EMIT AFTER DELAY TABLE HISTORY METADATA "
    "QUALIFY ASOF LATERAL SLIDING SESSION WINDOW STRING BIGINT DOUBLE DECIMAL STRUCT ARRAY MAP MINUTES HOURS DAYS "
    "SECONDS INTERVAL DESCRIPTOR SECOND MINUTE HOUR DAY WEEK MONTH YEAR DROP REJECT".split()
)


class SqrlLexer(SqlLexer):
    """Lexer of scripts; words in capitals are keywords."""

    name, aliases, filenames = "SQRL", ["sql", "sqrl"], ["*.sqrl"]

    def get_tokens_unprocessed(self, text: str, stack: tuple[str, ...] = ("root",)) -> Iterator[tuple[int, Any, str]]:
        for place, kind, value in super().get_tokens_unprocessed(text, stack):
            if value in WORDS and (kind in Name or kind in Keyword or kind is Token.Text):
                yield place, Keyword, value
            else:
                yield place, kind, value


def register() -> None:
    """Replace Pygments' own lexer of `sql`."""
    LEXERS["SqlLexer"] = (__name__, SqrlLexer.name, tuple(SqrlLexer.aliases), tuple(SqrlLexer.filenames), ())
