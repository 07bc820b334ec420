"""Renaming of a symbol in all scripts, without changing what they mean.

In: a document, an offset, the new name, the neighbouring scripts. Out: edits. The edited scripts and those that import
them are compiled. If the result is not the same catalog under the new name, nothing is renamed and B9155 gives the
reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.inputs import Input
from belvedere.catalog.subscriptions import Subscription
from belvedere.catalog.templates import QueryTemplate
from belvedere.catalog.views import View
from belvedere.compiler import compile_script
from belvedere.editor.definitions import NamePlace, places, symbols_at
from belvedere.editor.document import COMPILING, Document
from belvedere.editor.linked_scripts import ALONE, LinkedScripts, linked
from belvedere.editor.quoted_names import bare, is_plain, is_reserved, written
from belvedere.editor.statement_heads import StatementForm
from belvedere.editor.symbols import Symbol, Use, member
from belvedere.errors import BelvedereError, Severity, fail
from belvedere.plan.plan_text import plan_text
from belvedere.syntax.fmt.spacing import KEYWORDS

OTHERWISE = "choose another name, or name columns instead of `*`"
IMPORTED = "B2011"
"""Code for an import whose script has errors; those errors are also reported."""
RENAMED = ("relation", "column", "relationship", "alias", "parameter")


@dataclass(frozen=True)
class Edit:
    """Replacement of the text of a span in a file."""

    file: str
    start: int
    end: int
    text: str


def renamable(document: Document, offset: int) -> Use | None:
    """Return the name at an offset if it can be renamed, else None."""
    found = [u for u in document.ready().uses_at(offset) if u.symbol.kind in RENAMED]
    return found[0] if found else None


def rename(document: Document, offset: int, name: str, beside: LinkedScripts = ALONE) -> list[Edit]:
    """Return the edits that rename the name at an offset. Raises B9155 if that is not possible."""
    new = _written(name)
    if not document.compile().ok:
        raise _refused("the script has errors", "correct them first")
    for use in (u for u in document.ready().uses_at(offset) if u.symbol.kind in RENAMED):
        symbol, old = use.symbol, bare(document.text[use.start : use.end]).casefold()
        documents = _knowing(symbol, document, beside)
        found = _named(symbol, old, documents)
        if symbol.kind == "relationship" or any(p.use.defines for p in found):
            return _renamed(_Renaming(symbol, old, bare(new).casefold(), new), found, documents)
    if symbols := [s for s in symbols_at(document, offset) if s.kind in RENAMED]:
        raise _refused(f"`{symbols[0].name}` is defined by its source", "name it in the query: `column AS name`")
    raise _refused("there is no name to change here", "place the cursor on a view, a column, an alias or a parameter")


@dataclass(frozen=True)
class _Renaming:
    """A symbol with its old and new name, both folded, and the new name as written in a script."""

    symbol: Symbol
    old: str
    new: str
    written: str


def _knowing(symbol: Symbol, document: Document, beside: LinkedScripts) -> list[Document]:
    """Return the documents that may use a symbol, this one first."""
    if symbol.kind in ("alias", "parameter"):
        return [document]
    if beside.unread:
        names = ", ".join(p.name for p in beside.unread)
        raise _refused(
            f"`{symbol.name}` may be used in {names}, which cannot be read", "save it as UTF-8, or move it elsewhere"
        )
    if not beside.whole:
        raise _refused("there are too many folders beside this script to search", "open only the project's folder")
    return linked(document, beside.documents)


def _named(symbol: Symbol, name: str, documents: Sequence[Document]) -> list[NamePlace]:
    """Return the places at which a symbol has a name. The alias of an import is known only in its script."""
    if symbol.kind != "relation":
        return [p for s in _taken(symbol, documents) for p in places(s, documents)]
    own = documents if name == symbol.name else documents[:1]
    return [p for d in own for p in places(symbol, [d]) if bare(d.text[p.span.start : p.span.end]).casefold() == name]


def _taken(symbol: Symbol, documents: Sequence[Document]) -> list[Symbol]:
    """Return a symbol and the columns of the same name that depend on each other through `*` or DISTINCT, in both
    directions."""
    found = [symbol]
    views = [s for d in documents for s in d.ready().statements if s.head.form is StatementForm.VIEW and s.head.path]
    made = [(s, s.known.find(s.text_of(s.head.path[0]))) for s in views if symbol.kind == "column"]
    pairs = [(member(v, c.name, "column"), c.symbol) for s, v in made if v is not None for c in s.given(s.block)]
    for known in found:  # grows during the loop
        found += {
            *(taken for taken, of in pairs if of == known),
            *(of for taken, of in pairs if taken == known),
        }.difference(found)
    return found


def _refused(why: str, hint: str) -> BelvedereError:
    return fail("B9155", f"nothing is renamed: {why}", hint=hint)


def _written(name: str) -> str:
    """Return the name as written in a script: in backticks if it is not a plain word. Raises B9155 if it is not
    a name."""
    word = bare(name)
    if not word or "`" in word or "\n" in word:
        raise _refused(f"`{name}` is not a name", "write a word")
    if is_plain(word) and word == name and (word.upper() in KEYWORDS or is_reserved(word)):
        raise _refused(f"`{name}` is a keyword", f"write it in quotes, or choose another name: {name}_")
    return f"`{word}`" if word.upper() in KEYWORDS else written(word)


def _renamed(renaming: _Renaming, found: list[NamePlace], documents: list[Document]) -> list[Edit]:
    """Return the edits of these places, after verifying that every edited document keeps its meaning."""
    edits = list(dict.fromkeys(_edit(p, renaming) for p in found))
    texts = {Path(d.file): apply(d.text, own) for d in documents if (own := [e for e in edits if e.file == d.file])}
    compiled = [(d, d.compile()) for d in documents]
    touched = [(d, c) for d, c in compiled if d.path in texts or not d.imported.keys().isdisjoint(texts)]
    for d, c in touched:
        if not c.ok:
            raise _refused(
                f"`{renaming.symbol.name}` may be used in {d.path.name}, which has errors", "correct them first"
            )
        taken = renaming.symbol.kind == "relation" and renaming.new != renaming.old
        if taken and d.path in texts and d.now.known.find(renaming.new):
            raise _refused(f"{renaming.written} exists already in {d.path.name}", "choose another name")
    for d, c in touched:
        _check(d, c.catalog, texts, renaming)
    return edits


def _edit(place: NamePlace, renaming: _Renaming) -> Edit:
    span, new = place.span, renaming.written
    if not place.use.bare:
        return Edit(span.file, span.start, span.end, new)
    if place.use.defines:  # it takes its name from the column or table that is read, which keeps its name
        return Edit(span.file, span.end, span.end, f" AS {new}")
    return Edit(span.file, span.start, span.end, f"{new} AS {written(renaming.symbol.name)}")


def _check(document: Document, before: Catalog, texts: Mapping[Path, str], renaming: _Renaming) -> None:
    """Raise B9155 if a document changes its meaning when scripts have the new texts."""

    def read_script(path: Path) -> str:
        return texts[path] if path in texts else document.texts(path)

    project = replace(document.project, read_script=read_script)
    with COMPILING:
        after = compile_script(texts.get(document.path, document.text), path=document.path, project=project)
    if not after.ok:
        errors = [d for d in after.diagnostics if d.severity is Severity.ERROR]
        first = next((d for d in errors if d.code != IMPORTED), errors[0])
        place = Path(first.span.file) if first.span is not None else document.path
        raise _refused(f"then in {place.name} {first.message}", OTHERWISE)
    reported = [_meanings(c, renaming) for c in (before, after.catalog)]
    changed = next((name for (name, b), (_, a) in zip(*reported, strict=False) if a != b), None)
    if changed is not None or len(reported[0]) != len(reported[1]):
        raise _refused(f"`{changed or renaming.symbol.name}` of {document.path.name} would change", OTHERWISE)


def _meanings(catalog: Catalog, renaming: _Renaming) -> list[tuple[str, str]]:
    """Return the name of each object of a catalog, and its definition as text, with the old name replaced by the new
    one."""
    made: tuple[Input | View | Subscription | QueryTemplate, ...] = (
        *catalog.inputs.values(),
        *catalog.views.values(),
        *catalog.subscriptions.values(),
        *catalog.templates.values(),
    )
    reported = [(r.name, _text(r)) for r in made]
    reported += [(r.name, f"{r.owner} {r.name} {r.target} {r.pairs}") for r in catalog.relationships]
    word = re.compile(
        rf"(?<!\w)(_*){re.escape(renaming.old)}(?!\w)"
    )  # `_name` is a hidden key, or a relation that an import needs
    same = f"{renaming.new} = {renaming.new}"

    def in_new_words(text: str) -> str:
        # `a AS a` equals `a`
        return word.sub(lambda f: f[1] + renaming.new, text.casefold()).replace(same, renaming.new)

    return [(name, in_new_words(text)) for name, text in reported]


def _text(made: Input | View | Subscription | QueryTemplate) -> str:
    plan = plan_text(made.plan) if isinstance(made, View | QueryTemplate) else ""
    return f"{made.name} {getattr(made, 'id', '')} ({', '.join(c.name for c in made.schema.visible)}) {plan}"


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with the edits applied, the last first."""
    for edit in sorted(edits, key=lambda e: (e.start, e.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text
