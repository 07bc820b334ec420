"""A prompt in a terminal: lines with history and completion, until a statement is complete.

In: keys. Out: statements. `belvedere.terminal.shell` interprets them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from belvedere.errors import BelvedereError
from belvedere.terminal.completion import Words
from belvedere.terminal.statements import is_whole, statements_in

PROMPT, MORE = "belvedere> ", "      ...> "


class WordCompleter(Completer):
    """Completes with the words available now."""

    def __init__(self, words: Callable[[], Words]):
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions, or none if the store cannot be read. The query then reports the error."""
        with suppress(BelvedereError):
            for word, begun in self._words().after(document.text_before_cursor, document.text_after_cursor):
                yield Completion(word, -begun)


def prompt_session(words: Callable[[], Words], **terminal: Any) -> PromptSession[str]:
    """Return a prompt with history and completion.

    `terminal` are its input and output if they are not the terminal's.
    """
    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    path = history_file()
    return PromptSession(
        history=FileHistory(str(path)) if path is not None else InMemoryHistory(),
        completer=WordCompleter(words),
        complete_while_typing=False,
        multiline=True,
        key_bindings=keys,
        prompt_continuation=MORE,
        enable_history_search=True,
        **terminal,
    )


def typed(session: PromptSession[str]) -> Iterator[str]:
    """Yield the statements that the user types. Ctrl-C discards the present text, Ctrl-D ends."""
    while True:
        try:
            text = session.prompt(PROMPT)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        found, rest = statements_in(text)
        yield from (*found, rest)


def history_file() -> Path | None:
    """Return the file with the lines of earlier sessions, readable by this user only, or None if it cannot be
    written."""
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "state") / "belvedere"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / "query_history"
        file.touch(mode=0o600)
        return file if os.access(file, os.W_OK) else None
    return None
