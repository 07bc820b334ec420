"""The pictures of terminals on the pages show what the commands print today. `--update` makes them anew.

They show the tutorial's folder; those that need Spark are compared at night.
"""

from __future__ import annotations

import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.docs.terminal_pictures import last_state, meaning, picture, printed
from tests.docs.terminals import PORT
from tests.docs.test_pages import ROOT, blocks_of, write_file

PICTURES = ROOT / "docs" / "pictures"
TUTORIAL = ROOT / "docs" / "tutorial.md"


def write_folder(folder: Path, *, whole: bool) -> None:
    """The tutorial's files: as far as its first run, or all."""
    for block in blocks_of(TUTORIAL):
        if whole or "continued" not in block.words:
            write_file(block, folder)


def check(name: str, title: str, text: str, update: bool) -> None:
    path, made = PICTURES / f"{name}.svg", picture(title, text)
    if update:
        path.write_text(made, encoding="utf-8")
    assert "http" not in made.replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textualize.io", ""
    ).replace("http://127.0.0.1", "")
    assert meaning(path.read_text(encoding="utf-8")) == meaning(made), (
        f"{path.name} is another: pytest {__file__} --update"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))


def test_a_mistake(tmp_path: Path, update: bool) -> None:
    write_folder(tmp_path, whole=False)
    script = tmp_path / "bikes.sqrl"
    script.write_text(script.read_text(encoding="utf-8").replace("avg(t.minutes)", "avg(t.minuts)"), encoding="utf-8")
    check("terminal-check", "belvedere check bikes.sqrl", printed("belvedere check bikes.sqrl", tmp_path), update)


def test_how_a_view_is_kept(tmp_path: Path, update: bool) -> None:
    write_folder(tmp_path, whole=True)
    command = "belvedere explain bikes.sqrl Quarters"
    check("terminal-explain", command, printed(command, tmp_path), update)


@pytest.mark.nightly
@pytest.mark.spark
def test_a_run_and_the_plan_of_the_next(tmp_path: Path, update: bool) -> None:
    write_folder(tmp_path, whole=False)
    trip = next(b for b in blocks_of(TUTORIAL) if b.language == "console" and b.text.startswith("$ echo"))
    new_file = partial(subprocess.run, trip.text.removeprefix("$ "), shell=True, cwd=tmp_path, check=True)
    text = printed("belvedere run bikes.sqrl --port 0", tmp_path, [("epoch 1 ", new_file), ("epoch 2 ", lambda: None)])
    text = re.sub(r"(http://127\.0\.0\.1:)\d+", rf"\g<1>{PORT}", text).replace(str(tmp_path), "/home/you/bikes")
    check("terminal-run", "belvedere run bikes.sqrl", text, update)
    write_folder(tmp_path, whole=True)
    check("terminal-plan", "belvedere plan bikes.sqrl", printed("belvedere plan bikes.sqrl", tmp_path), update)


def test_a_picture_keeps_words_and_colours_and_not_figures() -> None:
    one = picture("x", "\x1b[31merror\x1b[0m: 3 rows, 0.2 s ──")
    assert meaning(one) == meaning(picture("x", "\x1b[31merror\x1b[0m:   1,200 rows, 11.5 s ─────"))
    assert meaning(one) != meaning(picture("x", "\x1b[32merror\x1b[0m: 3 rows, 0.2 s ──"))
    assert meaning(one) != meaning(picture("x", "\x1b[31merror\x1b[0m: 3 cows, 0.2 s ──"))
    assert "cdnjs" not in one


def test_of_what_is_redrawn_the_last_state_is_kept() -> None:
    assert (
        last_state("http://x\r\n\x1b[?25lfirst\r\nrow\x1b[1A\x1b[2K\x1b[1A\x1b[2Klast\r\nrow\r\n\x1b[?25h")
        == "http://x\nlast\nrow\n"
    )
    assert last_state("one\r\ntwo\r\n") == "one\ntwo\n"
