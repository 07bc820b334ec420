"""Whether a text has a window of SPL, by its words alone.

In: SQL. Out: yes or no.
"""

from __future__ import annotations

from belvedere.syntax.spl.window_parser import mentions_window
from belvedere.syntax.splitting import read_tokens


def mentions_spl_window(text: str) -> bool:
    """Return whether the text may have a table with an SPL window."""
    return mentions_window(read_tokens(text, "").tokens)
