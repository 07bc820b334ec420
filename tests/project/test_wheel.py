"""The wheel works outside the repository: it contains all files that the package reads, and a first session
succeeds."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDS_NO_WHEEL = {"belvedere/console/editor"}
"""Where what makes a file in the wheel lies, which nobody needs who has the wheel."""


def pip(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (made,) = folder.glob("*.whl")
    return made


def installed(wheel: Path, folder: Path, *, alone: bool) -> Path:
    """The command of a new virtual environment with the wheel; `alone`: with what pip fetches, else with this
    environment's packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    if alone:
        pip("--python", str(interpreter), "install", "--quiet", str(wheel))
    else:  # a line in a .pth is a folder of packages, of which no .pth is read: the repository's own is none of them
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "others.pth").write_text(sysconfig.get_path("purelib"))
        pip("--python", str(interpreter), "install", "--quiet", "--no-deps", "--no-index", str(wheel))
    return folder / "bin" / "belvedere"


def walk(command: Path, folder: Path) -> None:
    folder.mkdir()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "project" / "walk.py"), str(command)],
        cwd=folder,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "belvedere serve answered" in done.stdout


def test_all_files_of_the_package_are_in_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """A file that only the repository has is found missing by its first user."""
    pip("install", "--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(tmp_path), str(wheel))
    there = {path.relative_to(tmp_path).as_posix() for path in (tmp_path / "belvedere").rglob("*") if path.is_file()}
    tracked = subprocess.run(
        ["git", "ls-files", "belvedere"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert there <= set(tracked)
    missing = {path for path in set(tracked) - there if str(Path(path).parent) not in NEEDS_NO_WHEEL}
    assert not missing
    assert "belvedere/console/editor/codemirror.js" in there


@pytest.mark.nightly
@pytest.mark.spark
def test_a_newcomer_starts_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    command = installed(wheel, tmp_path / "venv", alone=False)
    walk(command, tmp_path / "empty")


@pytest.mark.spark
@pytest.mark.nightly
def test_a_newcomer_starts_from_the_wheel_and_what_it_names(wheel: Path, tmp_path: Path) -> None:
    """Also what the tests' packages bring must not be needed. Fetches some 400 MB."""
    command = installed(wheel, tmp_path / "venv", alone=True)
    walk(command, tmp_path / "empty")
