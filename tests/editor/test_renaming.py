"""A name that several scripts know is changed in all of them, or in none."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.editor.definitions import references
from belvedere.editor.document import Document
from belvedere.editor.linked_scripts import LinkedScripts, linked, scripts_in
from belvedere.editor.renaming import RENAMED, apply, rename
from belvedere.errors import BelvedereError
from tests import depth
from tests.depth import PART

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.sqrl"))
BASE = "CREATE STREAM S (a INT, k INT);\nV := SELECT a AS b FROM S;\nN := SELECT count(*) AS n FROM V;\n"
TOP = "IMPORT base.V;\nX := SELECT b FROM V WHERE b > 1 ORDER BY b;\n"


def project(folder: Path, **texts: str) -> dict[str, Document]:
    """Scripts of a folder, by stem."""
    for name, text in texts.items():
        (folder / f"{name}.sqrl").write_text(text, encoding="utf-8")
    return {n: Document(folder / f"{n}.sqrl", t) for n, t in texts.items()}


def renamed(
    scripts: dict[str, Document], at: str, where: str, name: str, unread: tuple[Path, ...] = ()
) -> dict[str, str]:
    """The scripts whose texts change with a name, each of them compiled over the others."""
    document = scripts[at]
    others = [d for d in scripts.values() if d is not document]
    edits = rename(document, document.text.index(where), name, LinkedScripts(others, unread))
    made = {n: apply(d.text, [e for e in edits if e.file == d.file]) for n, d in scripts.items()}
    for n, text in made.items():
        scripts[n].path.write_text(text, encoding="utf-8")
    for n, text in made.items():
        if text == scripts[n].text:
            continue
        assert compile_script(text, path=scripts[n].path, project=load_project(scripts[n].path.parent)).ok
    return {n: t for n, t in made.items() if t != scripts[n].text}


def refused(scripts: dict[str, Document], at: str, where: str, name: str, unread: tuple[Path, ...] = ()) -> str:
    """Why a name cannot be changed."""
    with pytest.raises(BelvedereError) as reported:
        renamed(scripts, at, where, name, unread)
    assert reported.value.diagnostics[0].code == "B9155"
    return reported.value.diagnostics[0].message


@pytest.mark.parametrize("at", ["base", "top"])
def test_a_column(tmp_path: Path, at: str) -> None:
    scripts = project(tmp_path, base=BASE, top=TOP)
    assert renamed(scripts, at, "b FROM", "c") == {
        "base": BASE.replace("AS b", "AS c"),
        "top": "IMPORT base.V;\nX := SELECT c AS b FROM V WHERE c > 1 ORDER BY c;\n",
    }


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (TOP, TOP.replace("V", "`Größe`")),
        ("IMPORT base.V AS W;\nX := SELECT w.b FROM W w;\n", "IMPORT base.`Größe` AS W;\nX := SELECT w.b FROM W w;\n"),
        ("IMPORT base.*;\nX := SELECT b FROM `V`;\n", "IMPORT base.*;\nX := SELECT b FROM `Größe`;\n"),
        ("IMPORT base AS o;\nX := SELECT v.b FROM o.V v;\n", "IMPORT base AS o;\nX := SELECT v.b FROM o.`Größe` v;\n"),
        ("IMPORT {{layer}}.V;\nX := SELECT b FROM V;\n", "IMPORT {{layer}}.`Größe`;\nX := SELECT b FROM `Größe`;\n"),
    ],
)
def test_a_view_in_all_ways_to_import_it(tmp_path: Path, text: str, becomes: str) -> None:
    (tmp_path / "belvedere.toml").write_text('[variables]\nlayer = "base"\n')
    scripts = project(tmp_path, base=BASE, top=text)
    assert renamed(scripts, "base", "V :=", "Größe") == {"base": BASE.replace("V", "`Größe`"), "top": becomes}


def test_a_view_that_others_only_rest_on(tmp_path: Path) -> None:
    scripts = project(tmp_path, base=BASE, top="IMPORT base.N;\nX := SELECT n FROM N;\n", over="IMPORT top.X;\n")
    assert renamed(scripts, "base", "V :=", "W").keys() == {"base"}


def test_a_view_through_another_script(tmp_path: Path) -> None:
    scripts = project(
        tmp_path,
        base=BASE,
        top=TOP,
        over="IMPORT top.V;\nIMPORT top.X;\nY := SELECT x.b FROM X x JOIN V v ON v.b = x.b;\n",
    )
    assert "JOIN W v" in renamed(scripts, "base", "V :=", "W")["over"]


def test_the_name_that_an_import_gives(tmp_path: Path) -> None:
    scripts = project(
        tmp_path, base=BASE, top="IMPORT base.V AS W;\nX := SELECT w.b FROM W w;\n", side="IMPORT base.V AS W;\n"
    )
    assert renamed(scripts, "top", "W w", "Z") == {"top": "IMPORT base.V AS Z;\nX := SELECT w.b FROM Z w;\n"}
    over = project(tmp_path, base=BASE, top="IMPORT base.V AS W;\nX := SELECT w.b FROM W w;\n", over="IMPORT top.W;\n")
    assert "in over.sqrl view `W` of script `top.sqrl` is not defined" in refused(over, "top", "W w", "Z")


def test_an_imported_table_gets_a_name_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "belvedere.toml").write_text('[sources.data]\nconnector = "files"\npath = "."\n')
    (tmp_path / "Orders.jsonl").write_text('{"id": 1}\n')
    scripts = project(
        tmp_path, base="IMPORT data.Orders;\nV := SELECT id FROM Orders;\n", top="IMPORT base.V;\nIMPORT base.Orders;\n"
    )
    assert renamed(scripts, "base", "Orders;", "Sales") == {
        "base": "IMPORT data.Orders AS Sales;\nV := SELECT id FROM Sales;\n",
        "top": "IMPORT base.V;\nIMPORT base.Sales;\n",
    }


@pytest.mark.parametrize(
    ("top", "why"),
    [
        ("IMPORT base.V;\nX := SELECT b FROM V WHERE;\n", "`b` may be used in top.sqrl, which has errors"),
        (
            "IMPORT base.V;\nCREATE STREAM T (c INT);\nX := SELECT t.c FROM T t WHERE EXISTS (SELECT 1 FROM V WHERE b "
            "= c);\n",
            "`X` of top.sqrl would change",
        ),
        (
            "IMPORT base.V;\nX := SELECT b, 1 AS c FROM V;\nY := SELECT x.b, v.b AS d FROM X x JOIN V v USING (b);\n",
            "top.sqrl",
        ),
    ],
)
def test_a_script_that_would_mean_something_else(tmp_path: Path, top: str, why: str) -> None:
    scripts = project(tmp_path, base=BASE, top=top, apart="CREATE STREAM T (")
    assert why in refused(scripts, "base", "b FROM", "c")


@pytest.mark.parametrize("text", ["IMPORT base.V;\nQ := SELECT b FROM V;\n", "IMPORT base.*;\nQ := SELECT n FROM N;\n"])
def test_a_name_that_an_importing_script_has(tmp_path: Path, text: str) -> None:
    assert "top.sqrl" in refused(project(tmp_path, base=BASE, top=text), "base", "V :=", "q")


def test_an_alias_is_no_use_of_a_column_that_is_called_so(tmp_path: Path) -> None:
    scripts = project(tmp_path, base="CREATE STREAM S (a INT, b INT);\nV := SELECT a AS b, b AS c FROM S;\n")
    assert "SELECT a AS b, d AS c" in renamed(scripts, "base", "b INT", "d")["base"]


@pytest.mark.parametrize("at", ["base", "top", "over"])
def test_views_with_a_star_follow(tmp_path: Path, at: str) -> None:
    top = "IMPORT base.V;\nX := SELECT * FROM V;\nFirst := DISTINCT X ON b ORDER BY b DESC;\n"
    over = "IMPORT top.First;\nY := SELECT f.b AS d FROM First f;\n"
    where = {"base": "b FROM", "top": "b ORDER", "over": "b AS"}[at]
    assert renamed(project(tmp_path, base=BASE, top=top, over=over), at, where, "c") == {
        "base": BASE.replace("AS b", "AS c"),
        "top": top.replace("ON b ORDER BY b", "ON c ORDER BY c"),
        "over": over.replace("f.b", "f.c"),
    }


def test_a_query_of_with_is_not_the_view_that_it_is_called_like(tmp_path: Path) -> None:
    text = "CREATE STREAM S (a INT);\nw := WITH w AS (SELECT a FROM S) SELECT w.a FROM w;\n"
    text += "X := WITH S AS (SELECT a FROM S) SELECT S.a FROM S;\n"
    made = renamed(project(tmp_path, base=text), "base", "w AS (", "q")["base"]
    assert "w := WITH q AS (SELECT a FROM S) SELECT q.a FROM q;" in made
    made = renamed(project(tmp_path, base=text), "base", "S (a INT", "T")["base"]
    assert "X := WITH S AS (SELECT a FROM T) SELECT S.a FROM S;" in made


def test_scripts_that_cannot_be_read(tmp_path: Path) -> None:
    scripts = project(tmp_path, base=BASE)
    assert "`b` may be used in x.sqrl, which cannot be read" in refused(
        scripts, "base", "b FROM", "c", (tmp_path / "x.sqrl",)
    )
    aliased = project(tmp_path, base="CREATE STREAM S (a INT);\nV := SELECT t.a FROM S t;\n")
    assert "SELECT u.a FROM S u" in renamed(aliased, "base", "t;", "u", (tmp_path / "x.sqrl",))["base"]


def test_a_script_that_is_imported_has_the_text_of_its_editor(tmp_path: Path) -> None:
    scripts = project(tmp_path, base=BASE.replace("AS b", "AS other"), top=TOP)
    opened = {scripts["base"].path: BASE}
    top = Document(scripts["top"].path, TOP, texts=lambda p: opened[p])
    assert top.compile().ok
    opened[scripts["base"].path] = BASE.replace("AS b", "AS gone")
    assert [d.code for d in top.compile().diagnostics] == ["B2002"]


def test_scripts_that_are_linked(tmp_path: Path) -> None:
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "below").mkdir()
    (tmp_path / ".hidden" / "h.sqrl").write_text(BASE)
    (tmp_path / "below" / "b.sqrl").write_text(BASE)
    scripts = project(
        tmp_path, base=BASE, top=TOP, over="IMPORT top.X;", apart="CREATE STREAM base (a INT);", broken="IMPORT base."
    )
    assert {p.name for p in scripts_in([tmp_path, tmp_path])[0]} == {f"{n}.sqrl" for n in scripts} | {"b.sqrl"}
    found = linked(scripts["base"], [d for n, d in scripts.items() if n != "base"])
    assert {d.path.stem for d in found} == {"base", "top", "over", "broken"}
    everywhere = references(scripts["base"], BASE.index("V :="), list(scripts.values())[1:])
    assert {Path(p.span.file).stem for p in everywhere} == {"base", "top"}


@pytest.mark.deep
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_every_name_of_an_example(path: Path) -> None:
    made = Document(path, path.read_text(encoding="utf-8"))
    if not made.compile().ok:
        pytest.skip("the example needs data that is made first")
    uses = {u.symbol: u for u in reversed(made.now.uses) if u.symbol.kind in RENAMED}
    uses = dict(list(uses.items())[:: PART if depth.quick else 1])
    assert {
        why for use in uses.values() if (why := why_not(made, use.start)) and "is defined by its source" not in why
    } == set()


def why_not(made: Document, offset: int) -> str:
    """Why the name there cannot be another one; nothing where it can."""
    try:
        return "" if rename(made, offset, "another_name") else "no edits"
    except BelvedereError as error:
        return error.diagnostics[0].message
