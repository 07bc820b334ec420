"""A name changed everywhere, so that every script means what it meant.

In: a document, an offset, the new name, the other scripts. Out: edits. The renamed scripts are compiled: where the result is not the same
catalog under the new name, nothing is renamed and B9155 says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from belvedere.catalog import Catalog, Input, Subscription, View
from belvedere.compiler import compile_script
from belvedere.editor.document import Document
from belvedere.editor.names import is_plain, is_reserved, written
from belvedere.editor.places import Place, places, symbols_at
from belvedere.editor.symbols import Symbol, Use
from belvedere.errors import BelvedereError, fail
from belvedere.lang.statements.spacing import KEYWORDS

RENAMED = ("relation", "column", "relationship", "alias", "parameter")


@dataclass(frozen=True)
class Edit:
    """The text that replaces that of a span of a file."""

    file: str
    start: int
    end: int
    text: str


def renamable(document: Document, offset: int) -> Use | None:
    """The name at an offset that can have another name."""
    found = [u for u in document.ready().uses_at(offset) if u.symbol.kind in RENAMED]
    return found[0] if found else None


def rename(document: Document, offset: int, name: str, others: Iterable[Document] = ()) -> list[Edit]:
    """The edits that give the name at an offset another one. Raises B9155 where that cannot be."""
    documents = [document, *others]
    new = _written(name)
    if not document.compile().ok:
        raise _refused("the script has errors", "mend them first")
    symbols = [s for s in symbols_at(document, offset) if s.kind in RENAMED]
    for symbol in symbols:
        found = places(symbol, documents)
        if symbol.kind == "relationship" or any(p.use.defines for p in found):
            return _renamed(symbol, name, new, found, documents)
    if symbols:
        raise _refused(f"`{symbols[0].name}` is defined by its source", "name it in the query: `column AS name`")
    raise _refused("there is no name here that could be changed", "stand on a view, a column, an alias or a parameter")


def _refused(why: str, hint: str) -> BelvedereError:
    return fail("B9155", f"nothing is renamed: {why}", hint=hint)


def _written(name: str) -> str:
    """The name as a script has it: in quotes where it is no plain word."""
    bare = name[1:-1] if len(name) > 2 and name[0] == name[-1] == "`" else name
    if not bare or "`" in bare or "\n" in bare:
        raise _refused(f"`{name}` is no name", "write a word")
    if is_plain(bare) and bare == name and (bare.upper() in KEYWORDS or is_reserved(bare)):
        raise _refused(f"`{name}` is a keyword", f"write it in quotes, or another name: {name}_")
    return f"`{bare}`" if bare.upper() in KEYWORDS else written(bare)


def _renamed(symbol: Symbol, name: str, new: str, found: list[Place], documents: list[Document]) -> list[Edit]:
    files = sorted({Path(p.span.file).name for p in found})
    if len(files) > 1:  # each can be compiled only with the others as they will be
        raise _refused(
            f"`{symbol.name}` is used in {', '.join(files)}",
            "change it by hand, or give it another name with AS in one of them",
        )
    bare = new.strip("`").casefold()
    if symbol.kind == "relation" and bare != symbol.name and any(d.now.known.find(bare) for d in documents if _is_in(d, found)):
        raise _refused(f"there is `{name}` already", "choose another name")
    edits = list(dict.fromkeys(_edit(p, new, symbol) for p in found))
    for document in documents:
        own = [e for e in edits if e.file == document.file]
        if own:
            _check(document, own, symbol, name)
    return edits


def _is_in(document: Document, found: list[Place]) -> bool:
    return any(p.span.file == document.file for p in found)


def _edit(place: Place, written: str, symbol: Symbol) -> Edit:
    span = place.span
    if place.use.bare and symbol.kind == "column":  # the column of this query keeps, or alone takes, its name
        return Edit(span.file, span.end, span.end, f" AS {written}") if place.use.defines else _kept(place, written)
    return Edit(span.file, span.start, span.end, written)


def _kept(place: Place, written: str) -> Edit:
    return Edit(place.span.file, place.span.start, place.span.end, f"{written} AS {place.use.symbol.name}")


def _check(document: Document, edits: list[Edit], symbol: Symbol, name: str) -> None:
    """Raise B9155 unless the renamed text means the same."""
    text = apply(document.text, edits)
    before, after = document.compile(), compile_script(text, path=document.path, project=document.project)
    if not after.ok:
        first = next(d for d in after.diagnostics if d.severity == "error")
        raise _refused(f"then {first.message}", first.hint or "choose another name")
    if _meaning(before.catalog, symbol, name) != _meaning(after.catalog, symbol, name):
        raise _refused(f"views of {document.path.name} would change", "choose another name, or name the columns instead of `*`")


def _meaning(catalog: Catalog, symbol: Symbol, name: str) -> list[tuple[str, tuple[str, ...]]]:
    """What a catalog shows: relations with their columns, the name and the one that it was taken as one."""
    old, new = symbol.name, name.strip("`").casefold()

    def one(word: str) -> str:
        return ".".join(new if p.casefold() == old else p.casefold() for p in word.split("."))

    relations: tuple[Input | View | Subscription, ...] = (
        *catalog.inputs.values(),
        *catalog.views.values(),
        *catalog.subscriptions.values(),
    )
    kinds = {"relation": one, "relationship": one}
    shown = kinds.get(symbol.kind, str.casefold)
    columns = one if symbol.kind == "column" else str.casefold
    return [(shown(r.name), tuple(columns(c.name) for c in r.schema.visible)) for r in relations]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """A text with edits made, the last first."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
