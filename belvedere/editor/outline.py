"""The outline of a script: what each statement defines.

In: a document. Out: `Symbol`-like entries in the order of the text, columns of declared inputs below them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from belvedere.editor.document import Document
from belvedere.editor.statement_heads import StatementForm
from belvedere.editor.statements import ScopedStatement


@dataclass(frozen=True)
class OutlineEntry:
    """A definition: its name and kind, the span of its text and of its name."""

    name: str
    kind: str
    start: int
    end: int
    name_start: int
    name_end: int
    children: tuple[OutlineEntry, ...] = ()


def outline(document: Document) -> list[OutlineEntry]:
    """Return the definitions of a script's statements."""
    return [e for s in document.ready().statements for e in _entries(s)]


def _entries(statement: ScopedStatement) -> Iterator[OutlineEntry]:
    head, tokens = statement.head, statement.read.tokens
    if head.name is None:
        return
    end = tokens[statement.range.hi - 1].end + 1
    named = (
        [head.alias]
        if head.alias is not None
        else list(head.path[-1:] if head.form is StatementForm.IMPORT else head.path)
    )
    name = ".".join(statement.text_of(i) for i in named)
    first, last = tokens[named[0]], tokens[named[-1]]
    kind = str(head.form) if head.form is not StatementForm.MEMBER else _member(statement)
    children = tuple(
        OutlineEntry(
            statement.text_of(i), "column", tokens[i].start, tokens[e - 1].end + 1, tokens[i].start, tokens[i].end + 1
        )
        for i, e in head.columns
    )
    yield OutlineEntry(name, kind, statement.range.start, end, first.start, last.end + 1, children)


def _member(statement: ScopedStatement) -> str:
    name = statement.text_of(statement.head.path[-1])
    return "relationship" if statement.owner is not None and statement.owner.link(name) is not None else "column"
