"""Names as a script writes them.

In: a name. Out: the word, in backticks where it is no plain word or one of the language's own; and back.
"""

from __future__ import annotations

from functools import lru_cache

from belvedere.syntax.dialect import Sqrl
from belvedere.syntax.fmt.spacing import KEYWORD_TYPES


def is_plain(name: str) -> bool:
    """Whether a name is one word of ASCII letters, digits and underscores."""
    return name.isidentifier() and name.isascii()


@lru_cache(maxsize=4096)
def is_reserved(word: str) -> bool:
    """Whether a plain word is a keyword that is no name without backticks."""
    return any(token.token_type in KEYWORD_TYPES for token in Sqrl().tokenize(word))


def written(name: str) -> str:
    """A name as a script has it."""
    return name if is_plain(name) and not is_reserved(name) else f"`{name.replace('`', '``')}`"


def bare(word: str) -> str:
    """The name that a script's word is: without backticks."""
    return word[1:-1].replace("``", "`") if len(word) > 2 and word[0] == word[-1] == "`" else word
