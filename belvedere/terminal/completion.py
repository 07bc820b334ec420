"""Completion at the prompt: the words of its commands, or those that an editor offers in a script.

In: the text before and after the cursor, and the relations and query templates that a query can name. Out: words. It
does not access the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from belvedere.editor.completion import complete
from belvedere.editor.document import Document
from belvedere.editor.known_relations import Known

COMMANDS = ("\\d", "\\f", "\\format", "\\timing", "\\q", "help")
DEFINING = ("IMPORT", "EXPORT", "CREATE")
"""Keywords that begin no query."""


@dataclass(frozen=True)
class Words:
    """The names that a query can use."""

    known: Known
    templates: Sequence[str] = ()

    def after(self, text: str, rest: str = "") -> Iterator[tuple[str, int]]:
        """Yield the words that may come between `text` and `rest`, each with the number of characters at the end of
        `text` that it replaces.
        """
        if text.lstrip().startswith("\\"):
            yield from self._of_command(text.lstrip())
            return
        found = complete(Document.of_names(text + rest, self.known), len(text))
        begun = text[found.start :]
        words = [p.written for p in found.found if p.kind != "keyword" or not p.word.startswith(DEFINING)]
        if not text[: found.start].strip():
            words += [t for t in self.templates if t.casefold().startswith(begun.casefold())]
        yield from ((word, len(begun)) for word in words if word != begun)

    def _of_command(self, text: str) -> Iterator[tuple[str, int]]:
        word, space, begun = text.partition(" ")
        relations = [r.name for r in self.known]
        names = (
            [*relations, *self.templates] if word == "\\d" else ["table", "json", "csv"] if word == "\\format" else []
        )
        for name in names if space else COMMANDS:
            start = begun if space else word
            if name.casefold().startswith(start.casefold()):
                yield name, len(start)
