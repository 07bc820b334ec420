"""Names as written in a script.

In: a name. Out: the word, in backticks if it is not a plain word or is reserved; and back.
"""

from __future__ import annotations

from functools import lru_cache

from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.fmt.spacing import KEYWORD_TYPES


def is_plain(name: str) -> bool:
    """Return whether a name consists of ASCII letters, digits and underscores only."""
    return name.isidentifier() and name.isascii()


@lru_cache(maxsize=4096)
def is_reserved(word: str) -> bool:
    """Return whether a plain word is a keyword that needs backticks to be a name."""
    return any(token.token_type in KEYWORD_TYPES for token in Sqrl().tokenize(word))


def written(name: str) -> str:
    """Return a name as written in a script."""
    return name if is_plain(name) and not is_reserved(name) else f"`{name.replace('`', '``')}`"


def bare(word: str) -> str:
    """Return the name of a word in a script: the word without backticks."""
    return word[1:-1].replace("``", "`") if len(word) > 2 and word[0] == word[-1] == "`" else word
