"""Fast check for SPL windows by the words of a text.

In: SQL. Out: whether it may have an SPL window.
"""

from __future__ import annotations

from belvedere.syntax.spl.window_parser import mentions_window
from belvedere.syntax.splitting import read_tokens


def mentions_spl_window(text: str) -> bool:
    """Return whether the text may have a table with an SPL window."""
    return mentions_window(read_tokens(text, "").tokens)
