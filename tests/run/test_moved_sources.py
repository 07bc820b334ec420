"""Files stay known if their folder is moved, linked or restored, also if they were recorded by absolute paths."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from belvedere.backups import restore_backup, take_backup
from belvedere.connectors.file_names import name_below, name_text, place_of, recognised, renamed_below
from belvedere.connectors.run_records import SourceFile, path_of
from tests.depth import at_night
from tests.run.loops import Loop

SCRIPT = """
IMPORT files.T KEEP 1000 DAYS;
Totals := SELECT count(*) AS n, sum(x) AS total FROM T;
"""
NAMES = ("T/{}.json", "T.{}.json", "T/é {}.json", "T/\udcff{}.json")


class Project:
    """A project with a store and a folder of files, that moves about."""

    def __init__(self, spark: Any, folder: Path):
        self.spark, self.root, self.folder = spark, folder, folder / "project 0"
        self.places = 0
        self.path = self.folder / "data"
        (self.path / "T").mkdir(parents=True)
        self.rows: list[int] = []
        self.reported: list[str] = []

    def put(self) -> None:
        """Another file, of two rows."""
        number = len(self.rows)
        self.rows += [number, number + 1]
        path = self.path / NAMES[number // 2 % len(NAMES)].format(number)
        path.write_text("".join(json.dumps({"x": x}) + "\n" for x in self.rows[-2:]))

    def run(self) -> None:
        """Run to the end: each row of all files was counted once."""
        loop = Loop(self.spark, self.folder, SCRIPT, f"[sources.files]\npath = {json.dumps(str(self.path))}\n")
        loop.once()
        self.reported = loop.reported
        (found,) = loop.rows("Totals")
        assert (found["n"], found["total"]) == (len(self.rows), sum(self.rows))

    def _next(self) -> Path:
        self.places += 1
        return self.root / f"project {self.places}"

    def moved(self) -> None:
        """The project is moved with its store and its files."""
        before, self.folder = self.folder, self._next()
        before.rename(self.folder)
        if before in self.path.parents:
            self.path = self.folder / self.path.relative_to(before)

    def linked(self) -> None:
        """The files are read through a link, or through the folder in its place."""
        link = self.root / "link"
        if self.path == link:
            self.path = Path(os.path.realpath(link))
        else:
            link.unlink(missing_ok=True)
            link.symlink_to(self.path)
            self.path = link

    def taken_elsewhere(self) -> None:
        """The files alone are moved."""
        real = Path(os.path.realpath(self.path))
        self.path = self._next() / "files"
        self.path.parent.mkdir()
        real.rename(self.path)

    def restored(self) -> None:
        """Another store is made of a backup."""
        url, backup, folder = f"sqlite:///{self.folder}/s.db", self._next() / "backup", self._next()
        take_backup(url, self.folder / "s.intake", backup)
        folder.mkdir()
        restore_backup(backup, f"sqlite:///{folder}/s.db", folder / "s.intake", None)
        if self.folder in self.path.parents:
            shutil.copytree(self.path, path := folder / "data")
            self.path = path
        self.folder = folder

    def noted_as_before(self) -> None:
        """The store is one of before: it has noted absolute paths."""
        with closing(sqlite3.connect(self.folder / "s.db")) as connection:
            rows = connection.execute("SELECT _key, source, path, epoch FROM _belvedere_files").fetchall()
            for key, source, name, epoch in rows:
                path = os.path.join(os.path.abspath(self.path), path_of(name))
                text = Path(path).as_uri() if "\udcff" in path else path
                values = (text, f"{source}\n{text}\n{epoch}", key)
                connection.execute("UPDATE _belvedere_files SET path = ?, _key = ? WHERE _key = ?", values)
            connection.commit()

    def noted(self) -> list[str]:
        with closing(sqlite3.connect(self.folder / "s.db")) as connection:
            return [name for (name,) in connection.execute("SELECT path FROM _belvedere_files")]


CHANGES: tuple[Callable[[Project], None], ...] = (
    Project.moved,
    Project.linked,
    Project.noted_as_before,
    Project.taken_elsewhere,
    Project.restored,
    Project.linked,
)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [None, *at_night(range(10))])
def test_files_stay_known_between_any_two_epochs(spark: Any, tmp_path: Path, seed: int | None) -> None:
    project, chosen = Project(spark, tmp_path), random.Random(seed)
    for _ in NAMES:
        project.put()
    project.run()
    for change in CHANGES if seed is None else [chosen.choice(CHANGES) for _ in range(12)]:
        change(project)
        if chosen.random() < 0.5:
            project.put()
        project.run()
        assert not any(os.path.isabs(path_of(name)) for name in project.noted())
    # a store of before whose files were moved before its first start
    project.noted_as_before()
    project.taken_elsewhere()
    project.put()
    project.run()
    assert "treated as the same files (" in project.reported[0]
    assert "; new files: 1" in project.reported[0]
    project.put()
    project.run()
    assert project.reported == []


def test_names_are_relative() -> None:
    odd = "T/\udcff.json"
    for name in ("T/a.json", "T.csv", "T/a\nb", odd):
        text = name_text(name)
        assert path_of(text) == name
        assert place_of("/data", text, "T") == f"/data/{name}"
        assert name_below("/data", text) == text
        for directory in ("/data", "/"):
            absolute = os.path.join(directory, name)
            noted = Path(absolute).as_uri() if name == odd else absolute
            assert name_below(directory, noted) == text
            assert renamed_below(directory, [noted, text]) == {noted: text}
    assert name_below("/data", "/database/T.csv") is None
    assert name_text(odd) == "file:T/%FF.json"


def test_what_is_recognised_is_there_once() -> None:
    """Files of one name, length and time are as many as were read; a file of another time is another one."""
    from datetime import UTC, datetime

    times = [datetime(2024, 1, d, tzinfo=UTC) for d in (1, 2)]

    def file(name: str, day: int = 0, length: int = 3) -> SourceFile:
        return SourceFile("", length, times[day], name)

    noted = [file("/old/T/a"), file("/old/T.a"), file("/old/T/b")]
    assert recognised(noted, [file("T/a"), file("T/b", 1), file("T/c"), file("T.a", length=4)]) == {"/old/T/a": "T/a"}
    assert len(set(recognised([file("/x/T/a"), file("/y/T/a")], [file("T/a")]).values())) == 1
