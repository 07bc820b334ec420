"""Definitions and uses of a name: in the document, in the scripts that it imports, and in those that import it.

In: a document, an offset, the other scripts. Out: `NamePlace`s. A column that a view selects unchanged has two meanings
at one place; the column that is read comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from belvedere.editor.document import Document
from belvedere.editor.linked_scripts import linked
from belvedere.editor.symbols import Symbol, Use
from belvedere.errors import Span


@dataclass(frozen=True)
class NamePlace:
    """A name's place in a file, and whether it defines the name."""

    span: Span
    use: Use


UNPLACED = ("function", "owner", "window", "namespace", "field")
"""Kinds of symbols that scripts do not define."""


def symbols_at(document: Document, offset: int) -> list[Symbol]:
    """Return the meanings of the name at an offset, its target first."""
    found = document.ready().uses_at(offset)
    return list(dict.fromkeys(u.symbol for u in found if u.symbol.kind not in UNPLACED))


def definitions(document: Document, offset: int, others: Iterable[Document]) -> list[NamePlace]:
    """Return the definitions of the name at an offset; the name itself if it is defined there."""
    known = linked(document, others)
    for symbol in symbols_at(document, offset):
        found = [p for p in places(symbol, known) if p.use.defines]
        if found:
            return found
        if symbol.kind == "column" and (through := _through(symbol, known)):
            return through
    return []


def references(document: Document, offset: int, others: Iterable[Document]) -> list[NamePlace]:
    """Return all places of the name at an offset."""
    found = symbols_at(document, offset)
    return places(found[0], linked(document, others)) if found else []


def places(symbol: Symbol, documents: Iterable[Document]) -> list[NamePlace]:
    """Return all places of a symbol."""
    return [
        NamePlace(Span(d.file, u.start, u.end), u)
        for d in documents
        for u in sorted(set(d.ready().uses), key=_order)
        if u.symbol == symbol
    ]


def _order(use: Use) -> tuple[int, bool]:
    return use.start, use.defines


def _through(symbol: Symbol, documents: list[Document]) -> list[NamePlace]:
    """Return the import of an imported column's table, or the view whose column comes from `*`."""
    relation = Symbol("relation", symbol.file, "", symbol.of)
    return [p for p in places(relation, documents) if p.use.defines]
