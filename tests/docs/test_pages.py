"""The code on the pages works: every block of README.md and docs/*.md is run, page by page, from top to bottom.

What a block is, its fence says:

* `sql` is a script: it compiles without errors. `sql continued` continues the script before it; `sql error=B2001` has
  that error.
* `python` runs; the blocks of a page share their names.
* `console` has commands after `$ ` and their output; a line `...` stands for any lines, and `...` in a line for any
  text in it. `console stays`: a command that keeps running, and its first output; a block without a command is its
  later output. `console soon`: commands that are repeated until they print this. `console ended`: the output of running
  commands after Ctrl-C.
* `toml` is a project file without mistakes, in an environment that has its variables, with each of its profiles.
* any of them with `file=NAME` is written to that file first, in the page's own folder (`sql continued`: appended);
  `json` and `csv` do nothing else.
* `sh`, `text`, `graphql`, `html` and `json` are not run: commands that serve until they are stopped, and answers.

Commands of `console` are processes at night, which shows that the installed command works. By day those of the other
pages run in this process, on the Spark that its tests share.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import depth
from tests.docs.terminals import Terminals, matches, terminals

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
KNOWN = {"sql", "python", "console", "toml", "js", "html", "json", "csv", "sh", "text", "graphql", "mermaid"}
NO_SPARK = object()
"""The session of a page whose commands use none."""
LONG = frozenset({"tutorial", "changed-files", "failing-views"})
"""Pages whose commands start Spark more than once."""
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (\w+=\S+ )*belvedere\b", re.MULTILINE)
NEEDS_SPARK = re.compile(r"^\$ belvedere (run|query|test)\b", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, its text and the line of its fence."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    def option(self, name: str) -> str | None:
        return next((w.partition("=")[2] for w in self.words if w.startswith(name + "=")), None)


def blocks_of(page: Path) -> list[Block]:
    found, lines = [], iter(enumerate(page.read_text(encoding="utf-8").split("\n"), start=1))
    for number, line in lines:
        if line.startswith("```"):
            words = line[3:].split()
            body = [text for _, text in _until_fence(lines)]
            found.append(Block(words[0] if words else "", tuple(words[1:]), "\n".join(body) + "\n", number))
    return found


def _until_fence(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        if line.startswith("```"):
            return
        yield number, line


def needs_spark(page: Path) -> bool:
    return any(
        b.language == "python" or (b.language == "console" and NEEDS_SPARK.search(b.text)) for b in blocks_of(page)
    )


def is_long(page: Path) -> bool:
    """Whether it is run at night: the tutorial and pages that start Spark again and again."""
    return page.stem in LONG


def marks_of(page: Path) -> list[pytest.MarkDecorator]:
    has_commands = any(b.language == "console" and COMMAND.search(b.text) for b in blocks_of(page))
    found = [pytest.mark.spark] if needs_spark(page) else []
    return [*found, *([pytest.mark.nightly] if is_long(page) else [pytest.mark.deep] if has_commands else [])]


@pytest.mark.parametrize("page", [pytest.param(p, id=str(p.relative_to(ROOT)), marks=marks_of(p)) for p in PAGES])
def test_every_block_of_the_page_works(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    with terminals(tmp_path, session_for(page, request)) as shells:
        run_page(page, tmp_path, shells)


def session_for(page: Path, request: pytest.FixtureRequest) -> Any:
    """The Spark on which commands run in this process, or None if each is a process of its own."""
    if not depth.quick:
        return None
    return request.getfixturevalue("spark") if needs_spark(page) else NO_SPARK


def run_page(page: Path, tmp_path: Path, shells: Terminals) -> None:
    names: dict[str, object] = {"__name__": "page"}
    script = ""
    for block in blocks_of(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        assert block.language in KNOWN, f"{place}: what is a block of {block.language!r}?"
        write_file(block, tmp_path)
        if block.language == "sql":
            script = script + block.text if "continued" in block.words else block.text
            check_script(script, block.option("error"), tmp_path, place)
        elif block.language == "toml":
            check_project(block.text, tmp_path, place)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.text, str(page), "exec"), names)
        elif block.language == "console":
            shells.run(block.text, block.words, place)


def write_file(block: Block, folder: Path) -> None:
    name = block.option("file")
    if name is not None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text(encoding="utf-8") + "\n" if "continued" in block.words else ""
        path.write_text(before + block.text, encoding="utf-8")


def check_script(script: str, error: str | None, folder: Path, place: str) -> None:
    from belvedere.compiler import compile_script
    from belvedere.connectors.project_file import load_project

    compiled = compile_script(script, project=load_project(folder))
    errors = {d.code: d.message for d in compiled.diagnostics if d.severity == "error"}
    if error is None:
        assert not errors, f"{place}: {errors}"
    else:
        assert error in errors, f"{place}: {errors or 'no error'}"


def check_project(text: str, folder: Path, place: str) -> None:
    from belvedere.connectors.project_file import read_project
    from belvedere.project.setting_sections import VARIABLE

    variables = {m[1]: "set" for m in VARIABLE.finditer(text)}
    for profile in ("", *tomllib.loads(text).get("profile", ())):
        project = read_project(text, folder, folder / "belvedere.toml", variables | {"BELVEDERE_PROFILE": profile})
        assert not project.diagnostics, f"{place}: {[d.message for d in project.diagnostics]}"


LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors_of(page: Path) -> set[str]:
    """What a link may name behind `#`: its headings, as GitHub writes them."""
    lines = FENCED.sub("", page.read_text(encoding="utf-8")).split("\n")
    headings = [line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line)]
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def broken_links(page: Path) -> list[str]:
    """The links to files that are not there, and to headings that a page has not."""
    found = []
    for target, anchor in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        file = page.parent / target if target else page
        if "://" in target:
            continue
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors_of(file)):
            found.append(f"{page.name}: {target}#{anchor}" if anchor else f"{page.name}: {target}")
    return found


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    assert [link for page in pages for link in broken_links(page)] == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `two`, three\n```sh\n# no heading\n```\n")
    (tmp_path / "a.md").write_text("[a](b.md#one-two-three) [b](b.md#no-heading) [c](c.md) [d](#x) [e](https://e/#x)\n")
    assert broken_links(tmp_path / "a.md") == ["a.md: b.md#no-heading", "a.md: c.md", "a.md: #x"]


def test_the_output_of_a_page_is_matched_as_promised() -> None:
    assert matches("a\n...\nd\n", "a\nb\nc\nd\n")
    assert matches("a\n...\n", "a\n")
    assert not matches("a\nd\n", "a\nb\nd\n")
    assert not matches("...\nd\n", "a\n")
    assert matches("took ... s\n", "took 0.5 s\n")
    assert not matches("took ... s\n", "took 0.5\n")


def test_commands_that_stay_and_that_answer_soon(tmp_path: Path) -> None:
    with terminals(tmp_path) as shells:
        shells.run("$ bash -c 'echo one; touch there; sleep 0.4; echo two 8080; exec sleep 60'\none\n", ("stays",), "a")
        shells.run("$ ls there\nthere\n$ echo 'a\nb'\na\nb\n", ("soon",), "b")
        shells.run("two ...\n", (), "c")
        process = shells.staying[0][0]
        with pytest.raises(AssertionError, match=r"d: \$ echo x\nexpected:\ny\n"):
            shells.run("$ echo x\ny\n", (), "d")
        shells.run("$ echo 'three'\nthree\n", ("ended",), "e")
        assert process.poll() is not None
