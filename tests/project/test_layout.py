"""Each line of the design has its room: one list of floors, folders of a size that one can look over, no circles."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "belvedere"
MOST = 25
"""Modules of one folder, without its `__init__`."""
AT_THE_ROOT = {"cli", "compiler", "errors", "schema"}
"""What users run and what authors of connectors import; `belvedere.X` for other users is in `__init__`."""


def floors() -> list[set[str]]:
    """From the top down, as import-linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = (c["layers"] for c in settings["contracts"] if c["type"] == "layers")
    return [{re.sub(r"\W", "", name) for name in layer.split("|")} for layer in layers]


def rooms() -> set[str]:
    """Packages and modules right below the root that have code of Python."""
    return {
        p.stem
        for p in PACKAGE.iterdir()
        if p.stem != "__init__" and (p.suffix == ".py" or (p / "__init__.py").is_file())
    }


def test_the_pages_know_the_floors_that_are_held() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = page[page.index("## Floors") : page.index("## Glossary")]
    reported = re.findall(r"^ {4,}.*$", drawn, re.MULTILINE)
    assert [set(re.findall(r"\w+", layer)) for layer in "".join(reported).split(">")] == floors()
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| (`[^|]+) \|", table[table.index("## Where things are") :].split("\n\n")[1], re.MULTILINE)
    listed = {Path(name).stem for cell in first for name in re.findall(r"`(?:belvedere/)?([\w./]+)`", cell)}
    assert rooms() - listed == set()
    assert set().union(*floors()) | {"console"} == rooms() | {"console"}


def test_a_folder_is_not_too_long_to_look_over() -> None:
    sizes = {f.relative_to(PACKAGE): len([m for m in f.glob("*.py") if m.stem != "__init__"]) for f in folders()}
    assert {f"{f}: {n}" for f, n in sizes.items() if n > MOST} == set()
    assert {m.stem for m in PACKAGE.glob("*.py")} - {"__init__"} == AT_THE_ROOT
    assert [f for f in sizes if not (PACKAGE / f / "__init__.py").is_file() and sizes[f]] == []


@dataclass(frozen=True)
class Names:
    """The names that a module gives: `top` are its classes outside of others, `all` those of classes, functions and
    values."""

    top: tuple[str, ...]
    classes: frozenset[str]
    functions: frozenset[str]
    all: frozenset[str]


@cache
def names_in(path: Path) -> Names:
    """The names of a module. Its tree is read once for all tests, and not kept."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes, functions, values = set[str](), set[str](), {*path.parts[-2:-1], path.stem}
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                classes.add(node.name)
            case ast.FunctionDef():
                functions.add(node.name)
            case ast.AsyncFunctionDef():
                values.add(node.name)
            case ast.arg():
                values.add(node.arg)
            case ast.Name(ctx=ast.Store()):
                values.add(node.id)
            case ast.Attribute(ctx=ast.Store()):
                values.add(node.attr)
    top = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Names(top, frozenset(classes), frozenset(functions), frozenset(classes | functions | values))


def words_of(name: str) -> Iterator[str]:
    yield from (word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name))


def test_a_class_name_means_one_thing() -> None:
    """Classes within others are not counted: sqlglot finds a dialect's `Tokenizer` and `Generator` by their names."""
    places: dict[str, list[str]] = {}
    for module, path in modules().items():
        for name in names_in(path).top:
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_private_words_name_nothing() -> None:
    """The last table of the glossary has them."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = page[page.index("| private | the field's |") :].split("\n\n")[0]
    private = {word for cell in re.findall(r"^\| ([a-z, ]+) \|", table, re.MULTILINE) for word in cell.split(", ")} - {
        "private"
    }
    assert {"told", "settled", "wanted"} <= private
    named = ((name, path) for path in modules().values() for name in names_in(path).all)
    assert {(word, name, str(path)) for name, path in named for word in words_of(name) if word in private} == set()


NOT_OF_CLASSES = frozenset(
    "look held lost taken asked where kept given moved reached around together seen carried".split()
)
"""Participles say nothing of what a value is; those of functions and variables are read with what stands beside
them."""


def test_a_class_is_called_by_a_noun() -> None:
    classes = {name for path in modules().values() for name in names_in(path).classes}
    assert {(word, name) for name in classes for word in words_of(name) if word in NOT_OF_CLASSES} == set()


NOT_OF_FUNCTIONS = frozenset("tell told held behind around levels growth carried lost again moved".split())
"""Words that say nothing by themselves: a public function has another, or one beside it."""


def test_a_public_function_says_what_it_does() -> None:
    functions = ((name, path) for path in modules().values() for name in names_in(path).functions)
    inner = ("again", "processes")  # a callback within a function
    assert {(name, path.stem) for name, path in functions if name in NOT_OF_FUNCTIONS} - {inner} == set()


def folders() -> Iterator[Path]:
    return (f for f in (PACKAGE, *PACKAGE.rglob("*")) if f.is_dir() and any(f.glob("*.py")))


@cache
def modules() -> Mapping[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


Import = ast.Import | ast.ImportFrom


@cache
def imports(path: Path) -> Mapping[Import, bool]:
    """The import statements of a module, each with whether it is within a function. Whole trees are not kept:
    collections take long."""
    found = dict[Import, bool]()
    rest: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), False)]
    while rest:
        node, within = rest.pop()
        if isinstance(node, Import):
            found[node] = within
        elif isinstance(node, ast.stmt | ast.Module | ast.excepthandler):  # no expression has imports
            within = within or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            rest += [(below, within) for below in ast.iter_child_nodes(node)]
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules that one imports, those of types and within functions too."""
    for node in imports(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules() else node.module for name in inside)


def in_circles() -> set[str]:
    """The modules that import themselves by way of others."""
    of = networkx.DiGraph(
        (name, i) for name, path in modules().items() for i in imported(path) if i in modules() and i != name
    )
    of.remove_nodes_from(["belvedere"])  # loads what users ask it for, when they do
    return {name for circle in networkx.strongly_connected_components(of) if len(circle) > 1 for name in circle}


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert in_circles() == set(), "a circle"


def test_a_package_that_imports_itself_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from belvedere.b import g\n")
    (tmp_path / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import belvedere.a\n")
    made = {
        "belvedere": ROOT / "belvedere/__init__.py",
        "belvedere.a": tmp_path / "a.py",
        "belvedere.b": tmp_path / "b.py",
    }
    monkeypatch.setitem(globals(), "modules", lambda: made)
    with pytest.raises(AssertionError, match="a circle"):
        test_modules_do_not_import_each_other_in_circles()


def unexplained(path: Path) -> Iterator[str]:
    """Imports within functions of which neither their own line nor that of the import right before them says why they
    are there."""
    lines = path.read_text(encoding="utf-8").splitlines()
    said = set[int]()
    within = {node.lineno: node for node, is_within in imports(path).items() if is_within}
    for number, node in sorted(within.items()):
        end = node.end_lineno or number
        if number - 1 in said or any("  # " in line for line in lines[number - 1 : end]):
            said.add(end)
        else:
            yield f"{path.name}:{number}"


def test_an_import_within_a_function_has_its_reason_beside_it() -> None:
    assert [found for path in modules().values() for found in unexplained(path)] == []


def test_an_import_without_a_reason_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text(
        "def f():\n    import a  # takes long\n    import b\n    x = 1\n    import c\n"
        "    from d import (\n        e,\n    )\n"
    )
    assert list(unexplained(path)) == ["a.py:5", "a.py:6"]
