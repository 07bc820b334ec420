"""Completion at a position of a script.

In: a document, an offset. Out: `Proposal`s and the text that they replace: relations after FROM, members of a relation
after a dot, else columns, functions and keywords; sources, types and hints at their positions. The typed prefix filters
them; the editor filters further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot.tokenizer_core import TokenType as T

from belvedere.editor.document import Document, Revision
from belvedere.editor.function_help import function_names, signature_of
from belvedere.editor.outline import outline
from belvedere.editor.quoted_names import written
from belvedere.editor.statement_heads import StatementForm
from belvedere.editor.statements import OWNER, ScopedStatement
from belvedere.editor.symbols import KnownColumn, columns, fields
from belvedere.errors import BelvedereError
from belvedere.functions.spark_types import type_text
from belvedere.lang.endpoints.query_hints import ON_ERROR, PLACEMENTS, PROMISES, QUERY_BY, RESUME
from belvedere.lang.statements.source_tables import table_names
from belvedere.schema import find_named
from belvedere.syntax.forms.windowing_calls import FORMS

BEGINNINGS = (
    "IMPORT",
    "EXPORT",
    "CREATE STREAM",
    "CREATE TABLE",
    "CREATE VIEW",
    "CREATE SUBSCRIPTION",
    "SELECT",
    "WITH",
)
AFTER_CLAUSE = {
    "": ("SELECT", "FROM", "WITH", "DISTINCT", "JOIN", "CASE"),
    "SELECT": (
        "FROM",
        "AS",
        "DISTINCT",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "OVER",
        "FILTER",
        "CAST",
        "INTERVAL",
        "NULL",
        "AND",
        "OR",
        "NOT",
    ),
    "FROM": (
        "JOIN",
        "LEFT JOIN",
        "ON",
        "AS",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "LIMIT",
        "UNION ALL",
        "FOR SYSTEM_TIME AS OF",
        "WINDOW BY",
        "EMIT",
    ),
    "ON": (
        "AND",
        "OR",
        "NOT",
        "JOIN",
        "LEFT JOIN",
        "WHERE",
        "GROUP BY",
        "ORDER BY",
        "BETWEEN",
        "INTERVAL",
        "IN",
        "IS NULL",
    ),
    "WHERE": (
        "AND",
        "OR",
        "NOT",
        "IN",
        "LIKE",
        "BETWEEN",
        "IS NULL",
        "IS NOT NULL",
        "EXISTS",
        "INTERVAL",
        "GROUP BY",
        "ORDER BY",
        "UNION ALL",
    ),
    "GROUP BY": ("HAVING", "ORDER BY", "LIMIT", "EMIT AFTER WATERMARK", "EMIT", "UNION ALL"),
    "HAVING": ("AND", "OR", "NOT", "ORDER BY", "EMIT"),
    "ORDER BY": ("ASC", "DESC", "NULLS FIRST", "NULLS LAST", "LIMIT", "WITHIN"),
}
CLAUSES_OF_IMPORT = ("AS", "WATERMARK FOR", "LATE DROP", "LATE KEEP", "KEEP", "WITH HISTORY", "IDLE AFTER")
TYPES = (
    # in SQL's spelling
    "INT BIGINT SMALLINT TINYINT DOUBLE FLOAT DECIMAL STRING BOOLEAN TIMESTAMP DATE BINARY ARRAY STRUCT MAP"
).split()
_CLOSING = re.compile(r"\w*`")
_BEGUN = re.compile(r"`[^`\n]*\Z|\w*\Z")


@dataclass(frozen=True)
class Proposal:
    """A word to insert; `kind` is relation, column, relationship, field, alias, function, keyword, type, source or
    hint."""

    word: str
    kind: str
    detail: str = ""
    doc: str = ""

    @property
    def written(self) -> str:
        """Return the word as written in a script."""
        if self.kind in ("keyword", "function", "type", "hint"):
            return self.word
        return (
            ".".join(map(written, self.word.split("."))) if self.kind in ("relation", "source") else written(self.word)
        )


@dataclass(frozen=True)
class Proposals:
    """Proposals that may replace the text from `start` to `end`."""

    start: int
    end: int
    found: tuple[Proposal, ...] = ()


def complete(document: Document, offset: int) -> Proposals:
    """Return the proposals at an offset."""
    now = document.ready()
    offset = min(max(offset, 0), len(now.text))
    begun = _BEGUN.search(now.text, 0, offset)
    start, end = begun.start() if begun is not None else offset, offset
    if now.text[start:offset].startswith("`"):
        if (closing := _CLOSING.match(now.text, offset)) is not None:
            end = closing.end()
        else:  # the text after the cursor is not part of the name
            now = Revision(f"{now.text[:offset]}`{now.text[offset:]}", now.known)
    folded = now.text[start:offset].strip("`").casefold()
    found: dict[tuple[str, str], Proposal] = {}
    for p in _proposals(document, now, start, offset):
        if p.word.casefold().startswith(folded):
            found.setdefault((p.word, p.kind if p.kind in ("keyword", "function") else ""), p)
    return Proposals(start, end, tuple(found.values()))


def _proposals(document: Document, now: Revision, start: int, offset: int) -> Iterator[Proposal]:
    comment = now.read.comment_at(offset)
    if comment is not None:
        yield from _hints(comment.text[: offset - comment.start]) if comment.text.startswith("/*+") else ()
        return
    before = now.read.before(start)
    if before >= 0 and now.read.tokens[before].token_type == T.STRING and now.read.tokens[before].end >= start:
        return
    statement = now.statement_at(start)
    fresh = "\n" in now.text[now.read.tokens[before].end + 1 : start] if before >= 0 else True
    if statement is None or statement.range.start >= start:
        yield from _beginnings(now)
        return
    yield from _within(document, statement, before, start)
    if fresh:
        yield from _beginnings(now)


def _beginnings(now: Revision) -> Iterator[Proposal]:
    yield from (Proposal(w, "keyword") for w in BEGINNINGS)
    yield from _relations(now)


def _relations(now: Revision) -> Iterator[Proposal]:
    for r in now.known:
        if not r.name.startswith("LATE("):
            yield Proposal(r.name, "relation", r.kind, r.doc or "")


def _within(document: Document, statement: ScopedStatement, before: int, start: int) -> Iterator[Proposal]:
    token = statement.read.tokens[before]
    head = statement.head
    if token.token_type == T.DOT:
        yield from _after_dot(document, statement, before)
    elif head.form is StatementForm.IMPORT:
        yield from _of_import(document, statement, before)
    elif head.form is StatementForm.EXPORT:
        known = _relations(document.now) if before == statement.range.lo else iter(())
        yield from known
        yield from (Proposal("TO", "keyword"),) if head.path and before == head.path[-1] else ()
        yield from (Proposal(s, "source", "sink") for s in document.project.sinks) if token.text.upper() == "TO" else ()
    elif head.form is StatementForm.INPUT and before < head.body:
        yield from _of_input(statement, before)
    elif _wants_type(statement, before):
        yield from (Proposal(t, "type") for t in TYPES)
    else:
        yield from _of_query(document, statement, before)


def _wants_type(statement: ScopedStatement, before: int) -> bool:
    """Return whether a type must follow: after `::`, and after AS in CAST."""
    tokens = statement.read.tokens
    if tokens[before].token_type == T.DCOLON:
        return True
    if tokens[before].token_type != T.ALIAS:
        return False
    depth, i = 0, before - 1
    while i > statement.range.lo and depth >= 0:
        depth += (tokens[i].token_type == T.R_PAREN) - (tokens[i].token_type == T.L_PAREN)
        i -= 1
    return depth < 0 and tokens[i].text.upper() in ("CAST", "TRY_CAST")


def _of_input(statement: ScopedStatement, before: int) -> Iterator[Proposal]:
    if any(before == name for name, _ in statement.head.columns):
        yield from (Proposal(t, "type") for t in TYPES)
        return
    yield from (
        Proposal(w, "keyword")
        for w in ("PRIMARY KEY", "NOT NULL", "WATERMARK FOR", "CHECK", "DEFAULT", "METADATA FROM")
    )
    yield from _columns(columns(statement.base))


def _of_import(document: Document, statement: ScopedStatement, before: int) -> Iterator[Proposal]:
    if before == statement.range.lo:
        yield from (Proposal(s.name, "source", s.connector) for s in document.project.sources.values())
        yield from (
            Proposal(p.stem, "source", "script")
            for p in sorted(document.path.parent.glob("*.sqrl"))
            if p != document.path
        )
        return
    yield from (Proposal(w, "keyword") for w in CLAUSES_OF_IMPORT)
    yield from _columns(columns(statement.base))


def _after_dot(document: Document, statement: ScopedStatement, dot: int) -> Iterator[Proposal]:
    tokens = statement.read.tokens
    first = dot - 1
    while first >= statement.range.lo + 2 and tokens[first - 1].token_type == T.DOT:
        first -= 2
    path = list(range(first, dot, 2))
    if statement.head.form is StatementForm.IMPORT:
        yield from _tables(document, [statement.text_of(i) for i in path])
        return
    if statement.head.form is StatementForm.EXPORT:
        return
    block = statement.block.innermost(dot)
    name = statement.text_of(path[0])
    source = statement.aliased(block, name)
    relation, rest = statement.known.find(name, statement.range.start), path[1:]
    found = columns(relation)
    if name in OWNER and statement.owner is not None:
        relation, found = statement.owner, columns(statement.owner)
    elif source is not None:
        relation, found = statement.relation_of(source), statement.columns_of(source)
    elif relation is None:
        struct = [c for s in block.sources for c in statement.columns_of(s) if c.name.casefold() == name.casefold()]
        found, rest = struct, path
        yield from (
            Proposal(r.name[len(name) + 1 :], "relation", r.kind)
            for r in statement.known
            if r.name.casefold().startswith(f"{name.casefold()}.")
        )
        if not struct:
            return
    type_ = None
    for i in rest:
        step = statement.text_of(i)
        column = find_named(found, step)
        target = statement.known.target(relation, step) if relation is not None else None
        if type_ is not None or column is not None:
            inner = find_named(fields(type_), step)
            type_ = column.type if type_ is None and column is not None else inner.type if inner is not None else None
            relation, found = None, []
        elif target is not None:
            relation, found = target, columns(target)
        else:
            return
    if type_ is not None:
        yield from (Proposal(f.name, "field", type_text(f.type)) for f in fields(type_))
        return
    yield from _columns(found)
    if relation is not None:
        yield from (
            Proposal(r.name, "relationship", f"→ {target}", r.doc or "") for r, target in relation.links.values()
        )


def _tables(document: Document, path: list[str]) -> Iterator[Proposal]:
    """Yield the members of an origin of IMPORT: tables of a source, views of a script."""
    source = document.project.source(".".join(path))
    if source is not None and document.project.finder is not None:
        try:
            yield from (
                Proposal(n, "relation", f"table of {source.name}") for n in table_names(source, document.project.finder)
            )
        except BelvedereError:  # the file is missing: the diagnostic of the import reports it
            return
        return
    file = document.path.parent.joinpath(*path).with_suffix(".sqrl")
    if file.is_file() and file != document.path:
        try:
            other = Document(file, document.texts(file.resolve()))
        except (OSError, UnicodeDecodeError):  # the diagnostic of the import reports it
            return
        names = dict.fromkeys(e.name for e in outline(other) if "." not in e.name and not e.name.startswith("_"))
        yield from (Proposal(n, "relation", f"of {file.name}") for n in names)


def _of_query(document: Document, statement: ScopedStatement, before: int) -> Iterator[Proposal]:
    token, block = statement.read.tokens[before], statement.block.innermost(before + 1)
    block = block if block.lo <= before else (block.parent or block)
    clause = block.clause_at(before + 1)
    around = list(statement.enclosing(block))
    if (clause == "FROM" and token.token_type in (T.FROM, T.JOIN, T.COMMA, T.L_PAREN, T.TABLE)) or (
        token.token_type == T.DISTINCT and before == statement.head.body
    ):
        yield from (Proposal(statement.text_of(i), "relation", "WITH") for b in around for i, _ in b.ctes)
        yield from _relations(document.now)
        yield from (Proposal(k.value.title(), "function", "time window") for k in FORMS)
        yield from (Proposal(w, "keyword") for w in ("LATE", "TABLE", "LATERAL"))
        return
    for b in around:
        for s in b.sources:
            yield from _columns(statement.columns_of(s))
        yield from (Proposal(a, "alias", _path(statement, s.path)) for s in b.sources if (a := statement.alias_of(s)))
    if clause in ("GROUP BY", "ORDER BY", "HAVING"):
        yield from _columns(statement.given(block))
    if statement.base is not None:
        yield from _columns(columns(statement.base))
    if statement.owner is not None:
        yield Proposal("_", "alias", statement.owner.name)
    yield from (Proposal(statement.text_of(p), "alias", "parameter") for p, _ in statement.head.parameters)
    yield from (Proposal(w, "keyword") for w in AFTER_CLAUSE.get(clause, AFTER_CLAUSE["WHERE"]))
    yield from (Proposal(n, "function", kind) for n, kind in function_names().items())
    own = document.now.known.functions
    signed = [found for f in own.values() if (found := signature_of(f.name, own)) is not None]
    yield from (Proposal(f.name, "function", "of the project", f"```sqrl\n{f.label}\n```\n{f.text}") for f in signed)
    if not any(b.sources for b in around):
        yield from _relations(document.now)


def _path(statement: ScopedStatement, path: Iterable[int]) -> str:
    return ".".join(statement.text_of(i) for i in path)


def _columns(found: Iterable[KnownColumn]) -> Iterator[Proposal]:
    for c in found:
        if not c.hidden:
            yield Proposal(c.name, "column", type_text(c.type) if c.type is not None else c.text, c.doc or "")


def _hints(begun: str) -> Iterator[Proposal]:
    inside = re.search(r"(\w+)\s*\([^()]*$", begun)
    if inside is None:
        yield from (Proposal(w, "hint") for w in ("no_query", *QUERY_BY, *PLACEMENTS, ON_ERROR, RESUME, *PROMISES))
    elif inside[1].casefold() == ON_ERROR:
        yield from (Proposal(w, "hint") for w in ("stop", "null", "quarantine"))
