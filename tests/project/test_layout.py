"""Each line of the design has its room: one list of floors, folders of a size that one can look over, no circles."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

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
    return {p.stem for p in PACKAGE.iterdir() if p.stem != "__init__" and (p.suffix == ".py" or (p / "__init__.py").is_file())}


def test_the_pages_know_the_floors_that_are_held() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    drawn = page[page.index("## Floors") : page.index("## Glossary")]
    told = re.findall(r"^ {4,}.*$", drawn, re.MULTILINE)
    assert [set(re.findall(r"\w+", layer)) for layer in "".join(told).split(">")] == floors()
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


def test_a_class_name_means_one_thing() -> None:
    """Classes within others are not counted: sqlglot finds a dialect's `Tokenizer` and `Generator` by their names."""
    places: dict[str, list[str]] = {}
    for name, path in modules().items():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def folders() -> Iterator[Path]:
    return (f for f in (PACKAGE, *PACKAGE.rglob("*")) if f.is_dir() and any(f.glob("*.py")))


@cache
def modules() -> Mapping[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """The modules that one imports, those of types and within functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules() else node.module for name in inside)


WITH_CIRCLES = {"api"}
"""Packages of which some modules still import each other: their types are declared beside their makers."""


def in_circles() -> Iterator[str]:
    """The modules that import themselves by way of others."""
    left = {name: {i for i in imported(path) if i in modules()} - {name, "belvedere"} for name, path in modules().items()}
    left.pop("belvedere")  # loads what users ask it for, when they do
    while ends := {n for n, needs in left.items() if not needs} | (left.keys() - set().union(*left.values())):
        left = {name: needs - ends for name, needs in left.items() if name not in ends}
    return (name for name in left if name in reached(left, name))


def reached(needs: Mapping[str, set[str]], name: str) -> set[str]:
    """What a module imports, and what that imports."""
    found, rest = set[str](), [name]
    while rest:
        new = needs[rest.pop()] - found
        found |= new
        rest += new
    return found


def test_modules_do_not_import_each_other_in_circles() -> None:
    assert {name.split(".")[1] for name in in_circles()} == WITH_CIRCLES, "a circle"


def test_a_package_that_imports_itself_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from belvedere.b import g\n")
    (tmp_path / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import belvedere.a\n")
    made = {"belvedere": ROOT / "belvedere/__init__.py", "belvedere.a": tmp_path / "a.py", "belvedere.b": tmp_path / "b.py"}
    monkeypatch.setitem(globals(), "modules", lambda: made)
    with pytest.raises(AssertionError, match="a circle"):
        test_modules_do_not_import_each_other_in_circles()
