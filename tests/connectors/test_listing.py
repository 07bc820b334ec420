"""Which files are new: all of the table's, once, however often and whenever a folder is looked at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from belvedere.connectors import file_listing
from belvedere.connectors.file_listing import Listing


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that were listed."""
    found: list[str] = []
    scan = os.scandir

    def counted(path: Any) -> Any:
        found.append(str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", counted)
    return found


def names(files: Any) -> list[str]:
    return sorted(os.path.basename(f.path) for f in files)


def test_new_files_of_a_table(tmp_path: Path, scanned: list[str]) -> None:
    folder = tmp_path / "T"
    (folder / "below").mkdir(parents=True)
    for name in ("T/a.json", "T/_part", "T/.hidden", "T/no suffix", "T.csv", "T.2.json.gz", "Tt.json", "t.json"):
        (tmp_path / name).write_text("x")
    os.symlink(tmp_path / "Tt.json", folder / "link.json")
    os.symlink(tmp_path / "nowhere", folder / "dangling.json")
    (tmp_path / "T.d").mkdir()
    found = Listing(str(tmp_path), "T", {"T/a.json"})
    new = found.new_files()
    assert names(new) == ["T.2.json.gz", "T.csv", "link.json", "no suffix"]
    assert names(found.new_files()) == names(new)  # they count when an epoch has them
    found.add(new[:2])
    assert names(found.new_files()) == names(new[2:])
    found.add(new[2:])
    assert {f.name for f in new} < found.known
    # a folder that has not changed for a while is not listed again, until it changes or the time is up, unless a link
    # waits for its target
    (folder / "dangling.json").unlink()
    for path in (folder, tmp_path):
        os.utime(path, (1, 1))
    assert found.new_files() == []
    scanned.clear()
    assert found.new_files() == []
    assert scanned == []
    (folder / "b.json").write_text("x")
    os.utime(folder / "b.json", (5, 5))  # copied late with an old time
    assert names(found.new_files()) == ["b.json"]
    assert scanned == [str(folder)]


def test_a_folder_that_has_just_changed_is_listed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files within one tick of the file system's clock leave the folder with one time of change."""
    (tmp_path / "T").mkdir()
    found = Listing(str(tmp_path), "T", ())
    assert found.new_files() == []
    changed = os.stat(tmp_path / "T")
    (tmp_path / "T" / "a.json").write_text("x")
    os.utime(tmp_path / "T", ns=(changed.st_atime_ns, changed.st_mtime_ns))
    assert names(found.new_files()) == ["a.json"]
    # and where a time of change is held back, the folder is listed after a while all the same
    os.utime(tmp_path / "T", (1, 1))
    found.add(found.new_files())
    assert found.new_files() == []
    (tmp_path / "T" / "b.json").write_text("x")
    os.utime(tmp_path / "T", (1, 1))
    assert found.new_files() == []
    monkeypatch.setattr(file_listing, "LISTED_AGAIN", 0.0)
    assert names(found.new_files()) == ["b.json"]


def test_folders_that_come_and_go(tmp_path: Path) -> None:
    found = Listing(str(tmp_path / "data"), "T", ())
    assert found.new_files() == []
    (tmp_path / "data" / "T").mkdir(parents=True)
    (tmp_path / "data" / "T" / "a.json").write_text("x")
    assert names(found.new_files(must_list=True)) == ["a.json"]


def test_links_and_folders_that_become_files_are_read_when_they_are_there(tmp_path: Path) -> None:
    """A link whose target comes later, a link to itself, a folder of a file's name: none of them holds up the
    others."""
    folder = tmp_path / "T"
    (folder / "later.json").mkdir(parents=True)
    os.symlink(tmp_path / "target", folder / "waiting.json")
    os.symlink(folder / "self.json", folder / "self.json")
    os.utime(folder, (1, 1))  # settled long ago
    (tmp_path / "T.json").mkdir()
    found = Listing(str(tmp_path), "T", ())
    assert names(found.new_files()) == []
    (tmp_path / "target").write_text("x")  # the folder with the link does not change
    new = found.new_files()
    assert names(new) == ["waiting.json"]
    found.add(new)
    (folder / "later.json").rmdir()
    (folder / "later.json").write_text("x")
    (tmp_path / "T.json").rmdir()
    (tmp_path / "T.json").write_text("x")
    (folder / "self.json").unlink()
    (folder / "self.json").write_text("x")
    assert names(found.new_files(must_list=True)) == ["T.json", "later.json", "self.json"]
