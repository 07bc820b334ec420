"""Hover text for the name under the pointer.

In: a document, an offset. Out: Markdown with its position: type, key, kind, how a view is maintained, the doc comment;
for functions their parameters and description. Maintenance is planned once per compile: a server plans it after the
diagnostics, other callers at the first hover.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from belvedere.catalog.shown_names import shown_names
from belvedere.codes import CODES
from belvedere.editor.document import Document, Revision
from belvedere.editor.function_help import Signature, signature_of
from belvedere.editor.known_relations import KnownRelation
from belvedere.editor.pipelines import explanations
from belvedere.editor.statements import ScopedStatement
from belvedere.editor.symbols import KnownColumn, Use, columns
from belvedere.functions.spark_types import type_text
from belvedere.pipeline.explain import ViewExplanation

SHOWN = 40
"""Maximum number of columns in the list."""


@dataclass(frozen=True)
class Hover:
    """Markdown about the text from `start` to `end`."""

    text: str
    start: int
    end: int


def hover(document: Document, offset: int) -> Hover | None:
    """Return the description of the name at an offset, and the diagnostics there."""
    now = document.ready()
    wrong = document.wrong_at(offset)
    found, why = (
        _of_name(document, now, offset),
        "\n\n".join(_code_text(c) for c in dict.fromkeys(d.code for d in wrong)),
    )
    if not why:
        return found
    if found is not None:
        return replace(found, text=f"{found.text}\n\n---\n\n{why}")
    span = next(d.span for d in wrong if d.span is not None)
    return Hover(why, span.start, span.end)


def _code_text(code: str) -> str:
    return f"**{code}** {CODES[code].title}\n\n{CODES[code].text}" if code in CODES else f"**{code}**"


def _of_name(document: Document, now: Revision, offset: int) -> Hover | None:
    for use in sorted(now.uses_at(offset), key=lambda u: offset == u.end):
        statement = now.statement_at(use.start)
        text = _text(document, now, statement, use) if statement is not None else None
        if text is not None:
            return Hover(text, use.start, use.end)
    return None


def _text(document: Document, now: Revision, statement: ScopedStatement, use: Use) -> str | None:
    name, kind = now.text[use.start : use.end].strip("`"), use.symbol.kind
    if kind == "function":
        found = signature_of(name, now.known.functions)
        return signature_text(found) if found is not None else None
    if kind in ("relation", "alias"):
        relation = relation_at(statement, use)
        return _relation_text(document, relation) if relation is not None else _query_text(statement, name, use)
    if kind == "relationship":
        return _relationship_text(now, use, name)
    if kind == "parameter":
        return f"```sqrl\n{name}\n```\nparameter of this query"
    return _column_text(statement, use, name)


def signature_text(found: Signature) -> str:
    """Return the description of a function as Markdown."""
    kind = (
        ""
        if found.kind == "scalar"
        else f"{found.kind} function\n\n"
        if found.kind in ("aggregate", "window")
        else f"{found.kind}\n\n"
    )
    return f"```sqrl\n{found.label}\n```\n{kind}{found.text}".strip()


def relation_at(statement: ScopedStatement, use: Use) -> KnownRelation | None:
    """Return the relation that a name refers to, directly or as an alias."""
    place = statement.read.token_at(use.start)
    if use.symbol.kind == "relation":
        name = statement.text_of(place) if place is not None else use.symbol.name
        return statement.known.find(name, statement.range.end + 1 if use.defines else statement.range.start) or next(
            (r for r in statement.known if (r.home[0], r.home[1].casefold()) == (use.symbol.file, use.symbol.name)),
            None,
        )
    sources = (s for b in statement.block.walk() for s in b.sources)
    named = next((s for s in sources if statement.alias_symbol(s) == use.symbol), None)
    return statement.relation_of(named) if named is not None else None


def _relation_text(document: Document, relation: KnownRelation) -> str:
    shown = [c for c in columns(relation) if not c.hidden]
    lines = [f"  {c.name} {_type(c)}" for c in shown[:SHOWN]]
    lines += [f"  ... and {len(shown) - SHOWN} more"] if len(shown) > SHOWN else []
    parts = [f"```sqrl\n{relation.name} (\n" + ",\n".join(lines) + "\n)\n```", f"*{relation.kind}*{_key(relation)}"]
    if relation.doc:
        parts.append(relation.doc)
    if links := [f"`{r.name}` → `{target}`" for r, target in relation.links.values()]:
        parts.append("relationships: " + ", ".join(links))
    if (kept := maintenance_text(document, relation)) is not None:
        parts.append(kept)
    if (figures := document.figures.get(relation.id)) is not None:
        parts.append(figures)
    return "\n\n".join(parts)


def _key(relation: KnownRelation) -> str:
    key = relation.schema.key
    if key is None:
        return ""
    return f", key ({', '.join(f'`{k}`' for k in key)})" if key else ", one row"


def _type(column: KnownColumn) -> str:
    return (
        f"{type_text(column.type) if column.type is not None else ''}{'' if column.nullable else ' NOT NULL'}".strip()
    )


def maintenance_text(document: Document, relation: KnownRelation) -> str | None:
    """Return how a view was maintained and read when the script last compiled without errors; None if it never did."""
    found = next((e for e in explained(document) if e.name == relation.id), None)
    if found is None:
        return None
    lines = [f"- **{s.rule}**: {shown_names(s.reason)}" for s in found.stages]
    return shown_names("\n".join([*lines, f"- read: {found.reads}"]))


def explained(document: Document) -> tuple[ViewExplanation, ...]:
    """Return the explanations of the views of the last compile without errors; each compile is planned once."""
    document.ready()
    return explanations(document.fine) if document.fine is not None else ()


def _query_text(statement: ScopedStatement, name: str, use: Use) -> str | None:
    """Return the text of a query with a name: of WITH, or in brackets in FROM."""
    for block in statement.block.walk():
        inner = [(i, b) for i, b in block.ctes if b is not None]
        inner += [(s.alias, s.inner) for s in block.sources if s.alias is not None and s.inner is not None]
        for i, query in inner:
            if f"@{statement.read.tokens[i].start}" == use.symbol.of:
                lines = [f"  {c.name} {_type(c)}".rstrip() for c in statement.given(query)]
                return f"```sqrl\n{name} (\n" + ",\n".join(lines) + "\n)\n```\n*query of this statement*"
    return None


def _relationship_text(now: Revision, use: Use, name: str) -> str | None:
    owner = next((r for r in now.known if (r.home[0], r.home[1].casefold()) == (use.symbol.file, use.symbol.of)), None)
    link = owner.link(name) if owner is not None else None
    if owner is None or link is None:
        return None
    target = now.known.find(link[1])
    one = target is not None and link[0].leads_to_one(owner.schema, target.schema)
    doc = f"\n\n{link[0].doc}" if link[0].doc else ""
    return (
        f"```sqrl\n{owner.name}.{link[0].name} → {link[1]}\n```\n*relationship*, leads to "
        f"{'one row' if one else 'many rows'}{doc}"
    )


def _column_text(statement: ScopedStatement, use: Use, name: str) -> str | None:
    found = column_at(statement, use)
    if found is None:
        return None
    owner = f"of `{found.symbol.of}`" if found.symbol.of and not found.symbol.of.startswith("@") else ""
    text = f"```sqrl\n{found.name} {_type(found)}".rstrip() + "\n```"
    said = [
        f"*column* {owner}".strip(),
        found.doc or "",
        f"`{found.text}`" if found.text and found.text != name else "",
    ]
    return "\n\n".join([text, *(s for s in said if s)])


def column_at(statement: ScopedStatement, use: Use) -> KnownColumn | None:
    """Return the column that a name of the statement refers to."""
    relation = next(
        (r for r in statement.known if (r.home[0], r.home[1].casefold()) == (use.symbol.file, use.symbol.of)), None
    )
    of_relation = columns(relation)
    given = [c for b in statement.block.walk() for s in b.sources for c in statement.columns_of(s)]
    given += [c for b in statement.block.walk() for c in statement.given(b)]
    found = [c for c in (*of_relation, *given) if c.symbol == use.symbol]
    if not found and use.symbol.kind == "field":
        place = statement.read.token_at(use.start)
        return _field(statement, place) if place is not None else None
    return found[0] if found else None


def _field(statement: ScopedStatement, place: int) -> KnownColumn | None:
    first = place
    while first >= 2 and statement.text_of(first - 1) == ".":
        first -= 2
    path = statement.read.path_from(first, place + 1)
    found = statement.resolve(statement.block.innermost(first), path)
    if len(found) != len(path):
        return None
    symbol, type_, nullable = found[-1]
    return KnownColumn(statement.text_of(place), symbol, type_, nullable)
