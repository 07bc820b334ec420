"""Reads that a database cannot compute are rejected if the store uses it, or if the store is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot import exp

from belvedere.compiler import compile_script
from belvedere.project.settings import ProjectSettings
from belvedere.store import dialects
from belvedere.store.dialects.sqlite.sqlite import Sqlite
from belvedere.store.read import expressions
from belvedere.store.read.typed_sql import NameBindings, TypedSql, refused

SCRIPT = """
CREATE TABLE T (k INT, a INT, s STRING, PRIMARY KEY (k));
/*+ at_read */
V := SELECT k, a + 1 AS b FROM T;
Of(x INT) := SELECT k, a + :x AS b FROM T;
T.other := JOIN T o ON o.a + 1 = @.k;
"""


class Weak(Sqlite):
    """A database that cannot add."""

    name = "weak"
    urls = ("weak:",)


@pytest.fixture(autouse=True)
def weak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "DIALECTS", {**dialects.DIALECTS, "weak": Weak()})
    printed = expressions.print_expression

    def without_sums(tree: exp.Expr, scope: NameBindings) -> TypedSql:
        if isinstance(scope.dialect, Weak) and tree.find(exp.Add):
            raise refused(tree)
        return printed(tree, scope)

    for module in ("operators", "sources", "expressions"):
        monkeypatch.setattr(f"belvedere.store.read.{module}.print_expression", without_sums)


def codes(store: str | None, project: ProjectSettings | None = None) -> list[str]:
    return sorted(d.code for d in compile_script(SCRIPT, store=store, project=project).diagnostics)


@pytest.mark.parametrize("store", [None, "weak:file", "telegraph://unknown"])
def test_a_database_that_may_be_meant_is_asked(store: str | None) -> None:
    assert codes(store) == ["B8020", "B8022", "B8024"]


@pytest.mark.parametrize("store", ["sqlite:///shop.db", "sqlite://", "postgresql://user@host/shop"])
def test_another_database_shrinks_nobodys_language(store: str) -> None:
    assert codes(store) == []
    assert codes(None, ProjectSettings(Path(), store=store)) == []
    assert codes("weak:file", ProjectSettings(Path(), store=store)) != [], "the command line's store comes first"


def test_names_of_a_refused_relationship_are_the_scripts() -> None:
    """Its condition is printed anew: a text within it that looks like the name of a column stays."""
    script = "CREATE TABLE T (k INT, s STRING, PRIMARY KEY (k)); T.alike := JOIN T o ON upper(o.s || 'target.s') = @.s;"
    (found,) = compile_script(script).diagnostics
    assert found.code == "B8022"
    assert "o.s" in found.message
    assert "'target.s'" in found.message
