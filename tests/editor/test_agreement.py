"""The compiler and the editor resolve the same names, over scripts and queries of this repository.

An editor reads tokens, so that a statement may be broken: it follows the rules of `belvedere.lang.names` by itself.
Here each name that a compile resolves is compared with the symbol of the editor at its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pytest
from sqlglot import exp
from sqlglot.tokenizer_core import TokenType as T

from belvedere.catalog.relationships import Relationship
from belvedere.compiler import compile_script
from belvedere.editor.document import Document, Revision
from belvedere.editor.hover import column_at
from belvedere.editor.known_relations import Known
from belvedere.editor.statements import ScopedStatement
from belvedere.editor.symbols import Symbol, Use, member, relation_symbol
from belvedere.errors import Severity, Span
from belvedere.lang.names.definitions import NamedRelation
from belvedere.lang.names.scope import FromItem, Scope, SourceColumn
from belvedere.lang.relationships import navigation, paths
from belvedere.lang.select import from_clause, from_items
from belvedere.lang.statements import lower_relationships
from tests.compatibility.scripts import examples, golden_scripts, pages, query_lists, random_scripts
from tests.compatibility.verdicts import Script

NOT_READ = ("|>", "PIVOT", "UNPIVOT", "DROP VIEW")
"""Statements with these: an editor knows the columns before the pipe or the pivoting, and not those behind it."""


@dataclass(frozen=True)
class Resolved:
    """What a compile found for a name: the relation that it is, leads to or belongs to; the column."""

    kind: str
    name: str
    relation: NamedRelation | None = None
    column: SourceColumn | None = None


class Recorder:
    """Listens to the functions that resolve names, and keeps what each place meant last."""

    def __init__(self, patch: pytest.MonkeyPatch):
        self.found: dict[int, Resolved] = {}
        self.patch = patch
        patch.setattr(Scope, "resolve", self._resolve(Scope.resolve))
        for module in (from_items, from_clause, lower_relationships):
            patch.setattr(module, "find_relation", self._find_relation(from_items.find_relation))
        patch.setattr(paths, "find_relationship", self._find_relationship(paths.find_relationship))
        patch.setattr("belvedere.lang.names.resolve.navigation", self._navigation(navigation.navigation))

    def note(self, name: exp.Identifier, kind: str, relation: NamedRelation | None = None, column: Any = None) -> None:
        if "start" in name.meta:
            self.found[name.meta["start"]] = Resolved(kind, name.name, relation, column)

    def _resolve(self, resolve: Callable[..., Any]) -> Callable[..., Any]:
        def listened(scope: Scope, parts: Sequence[exp.Identifier], span: Span) -> Any:
            column, rest = resolve(scope, parts, span)
            owner = _owner(scope, column)
            self.note(
                parts[len(parts) - len(rest) - 1], "column", owner.relation if owner is not None else None, column
            )
            if len(parts) - len(rest) > 1:
                self.note(parts[0], "qualifier")
            for field in rest:
                self.note(field, "field")
            return column, rest

        return listened

    def _find_relation(self, find: Callable[..., NamedRelation]) -> Callable[..., NamedRelation]:
        def listened(frame: Any, path: Sequence[exp.Identifier]) -> NamedRelation:
            found = find(frame, path)
            self.note(path[-1], "relation", found)
            return found

        return listened

    def _find_relationship(self, find: Callable[..., Relationship]) -> Callable[..., Relationship]:
        def listened(context: Any, owner: FromItem, name: exp.Identifier) -> Relationship:
            found = find(context, owner, name)
            self.note(name, "relationship", owner.relation)
            return found

        return listened

    def _navigation(
        self, navigate: Callable[..., navigation.Navigation | None]
    ) -> Callable[..., navigation.Navigation | None]:
        def listened(*given: Any) -> navigation.Navigation | None:
            found = navigate(*given)
            if found is not None:
                self.note(found.rest[0], "far", found.target)
            return found

        return listened


def _owner(scope: Scope | None, column: SourceColumn) -> FromItem | None:
    while scope is not None:
        merged = (m.sources[0] for m in scope.merged if m.column is column)
        found = next(merged, None) or next((s for s in scope.sources if any(c is column for c in s.columns)), None)
        if found is not None:
            return found
        scope = scope.outer
    return None


def _expected(now: Revision, found: Resolved) -> list[Symbol]:
    """The symbols of which the editor must give one; none where any of the kind will do."""
    relation = now.known.find(found.relation.name) if found.relation is not None else None
    if relation is None:
        return []
    if found.kind == "relation":
        owner, _, last = relation.name.rpartition(".")
        above = now.known.find(owner) if owner else None  # a nested table is what a relationship leads to
        return [relation_symbol(relation), *([member(above, last, "relationship")] if above is not None else [])]
    kind = "relationship" if found.kind == "relationship" else "column"
    late = relation.name.removeprefix("LATE(").removesuffix(")")
    owners = [relation, *([r] if late != relation.name and (r := now.known.find(late)) is not None else [])]
    return [member(r, found.column.name if found.column is not None else found.name, kind) for r in owners]


KINDS = {
    "column": ("column", "window", "field"),
    "qualifier": ("alias", "relation", "relationship", "owner"),
    "field": ("field",),
    "relation": ("relation", "alias"),
    "relationship": ("relationship",),
    "far": ("column",),
}


def _differs(now: Revision, statement: ScopedStatement, uses: list[Use], found: Resolved) -> str | None:
    """What the editor says that the compiler does not; None where they agree."""
    if not uses:
        return "nothing"
    expected, said = _expected(now, found), uses[0].symbol
    if any(u.symbol in expected for u in uses) if expected else said.kind in KINDS[found.kind]:
        column = column_at(statement, uses[0])
        if found.column is None or column is None or column.type is None or column.type == found.column.typed.type:
            return None
        return f"a column of {column.type}, not {found.column.typed.type}"
    return f"{said}, not {expected}"


def _is_compared(statement: ScopedStatement, place: int, found: Resolved) -> bool:
    """Whether the name stands in the text (none that a rewriting has made), where an editor reads it."""
    tokens, block = statement.read.tokens, statement.block.innermost(place)
    if tokens[place].token_type == T.STRING or tokens[place].text.casefold() != found.name.casefold():
        return False
    if any(t.text.upper() in NOT_READ for t in tokens[statement.range.lo : statement.range.hi]):
        return False
    called = (
        s
        for b in statement.enclosing(block)
        for s in b.sources
        if s.path and s.function and not s.names and not s.array
    )
    if found.kind == "column" and found.relation is None and any(s.function not in ("TABLE", "LATE") for s in called):
        return False  # the columns of a function that gives rows
    outputs = {statement.text_of(i.name).casefold() for i in block.items if i.aliased and i.name is not None}
    return not (
        block.clause_at(place) == "HAVING" and found.name.casefold() in outputs
    )  # replaced by the output afterwards


def query_scripts() -> Iterator[Script]:
    """Each list of queries as one script, without those that are refused."""
    for queries in query_lists():
        lines = [f"V{n}__ := {' '.join(text.split())};\n" for n, text in enumerate(queries.texts)]
        starts = list(accumulate(map(len, lines), initial=len(queries.before)))
        compiled = compile_script(queries.before + "".join(lines))
        errors = [d.span for d in compiled.diagnostics if d.severity is Severity.ERROR]
        refused = {span.start for span in errors if span is not None}
        kept = [
            line for line, start in zip(lines, starts, strict=False) if not refused & {*range(start, start + len(line))}
        ]
        yield Script(queries.name, queries.before + "".join(kept))


@pytest.mark.parametrize(
    ("scripts", "least"),
    [
        (golden_scripts, 500),
        (examples, 120),
        (pages, 300),
        (random_scripts, 20),
        pytest.param(query_scripts, 1000, marks=pytest.mark.nightly),
    ],
)
def test_an_editor_says_what_the_compiler_resolves(
    scripts: Callable[[], Iterator[Script]], least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, compared, wrong = Recorder(monkeypatch), defaultdict[str, int](int), []
    for script in scripts():
        recorder.found.clear()
        compiled = compile_script(script.text, project=script.project)
        if not compiled.ok:
            continue
        now = Document.of_names(script.text, Known(compiled.catalog, "script.sqrl")).now
        uses = defaultdict[int, list[Use]](list)
        for use in now.uses:
            uses[use.start].append(use)
        for start, found in recorder.found.items():
            place, statement = now.read.token_at(start), now.statement_at(start)
            if place is None or statement is None or now.read.tokens[place].start != start:
                continue
            if _is_compared(statement, place, found):
                compared[found.kind] += 1
                said = _differs(now, statement, uses[start], found)
                around = " ".join(script.text[max(0, start - 60) : start + 40].split())
                wrong += (
                    [f"{script.name}: `{found.name}` ({found.kind}) in `{around}` is {said}"]
                    if said is not None
                    else []
                )
    assert not wrong, f"{len(wrong)} of {sum(compared.values())}:\n" + "\n".join(wrong[:40])
    assert compared["column"] >= least
