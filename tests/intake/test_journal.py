"""The journal: what it has taken it gives back, whatever happens to the end of its last file."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.intake import journal as module
from belvedere.intake.journal import Journal, JournalPosition, JournalTakeover
from belvedere.intake.journal_claim import read_claim
from belvedere.intake.journal_transfer import read_journal, write_journal
from belvedere.intake.segments import SEEDLESS


def payload(number: int) -> bytes:
    return f"record {number} ".encode() * (number % 7 + 1)


def open_again(journal: Journal, position: JournalPosition | None = None) -> Journal:
    journal.close()
    return Journal(journal.directory, position or JournalPosition(journal.id))


def test_records_come_back_in_order(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", JournalPosition())
    journal.append([payload(1), payload(2)])
    journal.append([payload(3)])
    again = open_again(journal)
    assert list(again.records()) == [(n, payload(n)) for n in (1, 2, 3)]
    assert (again.id, again.last) == (journal.id, 3)
    again.close()


def test_a_torn_end_is_cut_at_any_byte(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", JournalPosition())
    sizes = [0]
    path = None
    for number in range(1, 6):
        journal.append([payload(number)])
        (path,) = journal.directory.glob("*.journal")
        sizes.append(path.stat().st_size)
    assert path is not None
    data = path.read_bytes()
    journal.close()
    for end in range(sizes[1], len(data) + 1):
        path.write_bytes(data[:end])
        again = Journal(journal.directory, JournalPosition(journal.id))
        whole = sum(size <= end for size in sizes[1:])
        assert [n for n, _ in again.records()] == list(range(1, whole + 1))
        again.append([b"next"])
        assert list(again.records())[-1] == (whole + 1, b"next")
        again.close()


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of journals are opened: without waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(os, "fdatasync", lambda file: None)


def written(
    folder: Path, records: int, since: int = 0, id_: str = "mine", is_other: bool = False
) -> tuple[str, Path, list[int]]:
    """A journal of one segment behind record `since`: its id, its file, and where each record ends (the header
    first)."""
    journal = Journal(folder, JournalPosition(id_, since))
    ends = []
    for number in range(1, records + 1):
        journal.append([bytes(255 - b for b in payload(number)) if is_other else payload(number)])
        ends.append(next(folder.glob("*.journal")).stat().st_size)
    journal.close()
    (path,) = folder.glob("*.journal")
    return journal.id, path, [ends[0] - len(payload(1)) - 8, *ends]


@pytest.mark.usefixtures("unsynced")
def test_a_flip_of_each_byte_is_damage_or_a_torn_end(tmp_path: Path) -> None:
    id_, path, ends = written(tmp_path / "j", 4)
    data = path.read_bytes()
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        if place < ends[-2]:
            with pytest.raises(BelvedereError, match="B6142") as reported:
                Journal(path.parent, JournalPosition(id_))
            first = max(end for end in [0, *ends] if end <= place)
            assert f"damaged at byte {first}" in reported.value.diagnostics[0].message
            assert path.read_bytes() == broken
            assert not list(path.parent.glob("*.torn"))
            continue
        journal = Journal(path.parent, JournalPosition(id_))
        assert [p for _, p in journal.records()] == [payload(n) for n in (1, 2, 3)]
        (torn,) = path.parent.glob("*.torn")
        assert torn.read_bytes() == broken[ends[-2] :]
        assert [torn.name in notice for notice in journal.notices] == [True]
        torn.unlink()
        journal.close()


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("behind", ["zeros", "own bytes", "an older file", "another journal"])
def test_what_a_crash_leaves_behind_the_end_is_no_record(tmp_path: Path, behind: str) -> None:
    """Zeros, and blocks that had other content before, come after the end where power is lost while a file grows."""
    id_, path, ends = written(tmp_path / "j", 4, 20)
    data = path.read_bytes()
    older = written(tmp_path / "older", 4, 10, is_other=True)[1].read_bytes()
    another = written(tmp_path / "other", 4, 20, "another", True)[1].read_bytes()
    tail = {"zeros": bytes(len(data)), "own bytes": data, "an older file": older, "another journal": another}[behind]
    for cut in range(ends[0], len(data) + 1):
        for rest in (tail, tail[cut:]) if behind != "own bytes" else (tail, tail[cut % 40 :]):
            path.write_bytes(data[:cut] + rest)
            whole = sum(end <= cut for end in ends[1:])
            journal = Journal(path.parent, JournalPosition(id_, 20))
            assert [p for _, p in journal.records()] == [payload(n) for n in range(1, whole + 1)], cut
            assert bool(journal.notices) == (path.stat().st_size < cut + len(rest)), cut
            journal.append([b"next"])
            assert list(journal.records())[-1] == (20 + whole + 1, b"next")
            journal.close()


def test_zeros_in_the_middle_are_damage(tmp_path: Path) -> None:
    id_, path, ends = written(tmp_path / "j", 4)
    data = path.read_bytes()
    path.write_bytes(data[: ends[1]] + bytes(ends[2] - ends[1]) + data[ends[2] :])
    with pytest.raises(
        BelvedereError, match=f"damaged at byte {ends[1]}; complete records follow from byte {ends[2]} on"
    ):
        Journal(path.parent, JournalPosition(id_))


def test_committed_segments_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 200)
    journal = Journal(tmp_path / "j", JournalPosition(), lambda: {"keys": ["kept"]})
    for number in range(1, 41):
        journal.append([payload(number)])
    files = len(list(journal.directory.glob("*.journal")))
    assert files > 5
    journal.committed(30)
    assert len(list(journal.directory.glob("*.journal"))) < files
    again = open_again(journal, JournalPosition(journal.id, 30))
    found = list(again.records())
    assert found[-1] == (40, payload(40))
    assert found[0][0] <= 31
    assert again.headers[-1]["keys"] == ["kept"]
    again.close()


def test_a_store_that_lacks_records_which_are_gone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    journal = Journal(tmp_path / "j", JournalPosition())
    for number in range(1, 21):
        journal.append([payload(number)])
    journal.committed(20)
    journal.append([payload(21)])
    with pytest.raises(BelvedereError, match="B6141"):
        open_again(journal, JournalPosition(journal.id, 3))  # a backup of the store
    first = int(min(journal.directory.glob("*.journal")).stem)
    with pytest.raises(BelvedereError, match=f"records {first - 1} to {first - 1}"):
        Journal(journal.directory, JournalPosition(journal.id, first - 2))  # one record alone is gone
    Journal(journal.directory, JournalPosition(journal.id, first - 1)).close()
    with pytest.raises(BelvedereError, match="another store"):
        Journal(journal.directory, JournalPosition("another", 20))
    Journal(journal.directory, JournalPosition(journal.id, 20)).close()


def test_a_journal_that_was_moved_away_starts_anew_where_the_store_is(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", JournalPosition("id", 7))
    journal.append([b"eight"])
    again = open_again(journal, JournalPosition("id", 7))
    assert list(again.records()) == [(8, b"eight")]
    again.close()


def test_an_old_copy_of_the_journal_does_not_number_anew(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", JournalPosition())
    journal.append([b"one"])
    again = open_again(journal, JournalPosition(journal.id, 9))
    again.append([b"ten"])
    assert list(again.records()) == [(10, b"ten")]
    again.close()


def test_a_damaged_middle_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SEGMENT_BYTES", 100)
    journal = Journal(tmp_path / "j", JournalPosition())
    for number in range(1, 21):
        journal.append([payload(number)])
    first = min(journal.directory.glob("*.journal"))
    data = bytearray(first.read_bytes())
    data[-3] ^= 1
    first.write_bytes(data)
    with pytest.raises(BelvedereError, match="B6142"):
        open_again(journal)


def test_two_processes_do_not_share_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", JournalPosition())
    with pytest.raises(BelvedereError, match="B6143"):
        Journal(tmp_path / "j", JournalPosition())
    journal.close()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BelvedereError, match="B6140"):
        Journal(tmp_path / "file" / "j", JournalPosition())


def test_failed_writes_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes and syncs fail at random; what `append` returned for is there, and nothing else."""
    dice = random.Random(1)
    write, sync = os.write, os.fdatasync
    journal = Journal(tmp_path / "j", JournalPosition())
    failing: list[bool] = [False]

    def torn(file: int, data: Any) -> int:
        if failing[0] and dice.random() < 0.5:
            write(file, bytes(data)[: dice.randint(0, len(data) - 1)])
            raise OSError(errno.ENOSPC, "full")
        return write(file, data)

    def unsynced(file: int) -> None:
        if failing[0] and dice.random() < 0.3:
            raise OSError(errno.EIO, "bad")
        sync(file)

    monkeypatch.setattr(os, "write", torn)
    monkeypatch.setattr(os, "fdatasync", unsynced)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 2000)
    kept: list[bytes] = []
    refused = 0
    for number in range(300):
        failing[0] = dice.random() < 0.5
        try:
            journal.append([payload(number), b"second"])
            kept += [payload(number), b"second"]
        except OSError:
            refused += 1
        failing[0] = False
        if dice.random() < 0.05:
            journal = open_again(journal)
    assert refused > 30
    assert [p for _, p in journal.records()] == kept
    journal.close()


def test_a_journal_of_an_earlier_version_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checks cover payloads alone: it is read, and appended to, as it was begun; the next file is one of today."""
    with monkeypatch.context() as earlier:
        earlier.setattr(module, "VERSION", SEEDLESS)
        journal = Journal(tmp_path / "j", JournalPosition())
        journal.append([payload(1), payload(2)])
    again = open_again(journal)
    again.append([payload(3)])
    (file,) = tmp_path.glob(f"j/*{module.ENDING}")
    assert b'"version": 1' in file.read_bytes()
    again = open_again(again)
    assert [p for _, p in again.records()] == [payload(n) for n in (1, 2, 3)]
    monkeypatch.setattr(module, "SEGMENT_BYTES", 1)
    again.append([payload(4)])
    again.append([payload(5)])
    again = open_again(again)
    assert [p for _, p in again.records()] == [payload(n) for n in range(1, 6)]
    assert [b'"version": 1' in f.read_bytes() for f in sorted(tmp_path.glob(f"j/*{module.ENDING}"))][-1] is False
    again.close()


def taken_over(journal: Journal, by: str = "second") -> Journal:
    """The journal as another process opens it, while the one that has it is suspended."""
    return Journal(journal.directory, JournalPosition(journal.id), owner=by, before=read_claim(journal.directory).owner)


def numbers(journal: Journal) -> list[tuple[int, bytes]]:
    return list(journal.records())


def test_who_was_suspended_is_refused_and_its_records_are_none(tmp_path: Path) -> None:
    first = Journal(tmp_path / "j", JournalPosition(), owner="first")
    first.append([b"one", b"two"])
    with pytest.raises(BelvedereError, match="in use"):
        Journal(first.directory, JournalPosition(first.id), owner="other", before="somebody else")
    second = taken_over(first)
    with pytest.raises(JournalTakeover):
        first.append([b"late"])
    with pytest.raises(OSError, match="earlier write"):
        first.append([b"later"])
    second.append([b"three"])
    first.close()
    kept = [(1, b"one"), (2, b"two"), (3, b"three")]
    assert numbers(second) == kept
    third = open_again(second)
    assert (numbers(third), third.last, third.notices) == (kept, 3, [])
    third.append([b"four"])
    copied = read_journal(third.directory, JournalPosition(third.id))
    assert copied is None, "it is open"
    third.close()
    copied = read_journal(third.directory, JournalPosition(third.id))
    assert copied is not None
    write_journal(copied, tmp_path / "copy", "another")
    again = Journal(tmp_path / "copy", JournalPosition("another"))
    assert numbers(again) == [*kept, (4, b"four")]
    again.close()


@pytest.mark.parametrize("records", [0, 2])
def test_a_segment_that_is_begun_too_late_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int
) -> None:
    """Each append begins a segment of its own: that of the suspended one has the number of that which counts."""
    monkeypatch.setattr(module, "SEGMENT_BYTES", 0)
    first = Journal(tmp_path / "j", JournalPosition("id"), owner="first")
    for number in range(records):
        first.append([payload(number + 1)])
    second = taken_over(first)
    second.append([b"counts"])
    with pytest.raises(JournalTakeover):
        first.append([b"does not"])
    third = taken_over(second, "third")
    with pytest.raises(JournalTakeover):
        second.append([b"neither"])
    third.append([b"too"])
    expected = [*((n + 1, payload(n + 1)) for n in range(records)), (records + 1, b"counts"), (records + 2, b"too")]
    assert numbers(third) == expected
    for ended in (first, second, third):
        ended.close()
    again = Journal(tmp_path / "j", JournalPosition("id"))
    assert numbers(again) == expected
    again.close()


def test_records_that_were_written_but_not_answered_stay_once_they_were_read(tmp_path: Path) -> None:
    """It was suspended between the write and the sync: the other one has read the record, and it must not be cut off
    again."""
    first = Journal(tmp_path / "j", JournalPosition(), owner="first")
    first.append([b"one"])
    taken: list[Journal] = []
    sync = os.fdatasync

    def suspended(file: int) -> None:
        taken.append(taken_over(first))
        raise OSError(errno.EIO, "the disk failed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fdatasync", suspended)
        with pytest.raises(OSError, match="disk failed"):
            first.append([b"two"])
    assert os.fdatasync is sync
    (second,) = taken
    assert numbers(second) == [(1, b"one"), (2, b"two")]
    second.append([b"three"])
    first.close()
    again = open_again(second)
    assert numbers(again) == [(1, b"one"), (2, b"two"), (3, b"three")]
    again.close()


@pytest.mark.parametrize("text", [b"", b"{", b'{"owner": 1}', b"[]"])
def test_a_broken_claim_is_no_claim(tmp_path: Path, text: bytes) -> None:
    journal = Journal(tmp_path / "j", JournalPosition(), owner="first")
    journal.append([b"one"])
    journal.close()
    (journal.directory / "owner").write_bytes(text)
    again = Journal(journal.directory, JournalPosition(journal.id))
    again.append([b"two"])
    assert numbers(again) == [(1, b"one"), (2, b"two")]
    again.close()
    last = Journal(journal.directory, JournalPosition(journal.id))
    assert numbers(last) == [(1, b"one"), (2, b"two")]
    last.close()


def spent_by_a_suspended_one(folder: Path) -> tuple[Journal, Journal]:
    """A journal that a second process took over, whose first segment is gone; the one that was suspended has begun a
    segment late."""
    first = Journal(folder, JournalPosition("id"), owner="first")
    first.append([b"one", b"two"])
    first.committed(2)
    second = Journal(folder, JournalPosition("id", 2), owner="second", before="first")
    second.append([b"three", b"four"])
    with pytest.raises(JournalTakeover):
        first.append([b"late"])
    second.committed(4)
    second.append([b"five"])
    assert len(list(folder.glob(f"*~*{module.ENDING}"))) == 1, "the first one of the term is gone"
    first.close()
    return first, second


@pytest.mark.parametrize("closed", [True, False])
def test_a_late_segment_is_none_when_the_first_one_of_the_term_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    monkeypatch.setattr(module, "SPENT_BYTES", 0)
    _, second = spent_by_a_suspended_one(tmp_path / "j")
    if closed:
        second.close()
    third = Journal(tmp_path / "j", JournalPosition("id", 4), owner="third", before=None if closed else "second")
    assert numbers(third) == [(5, b"five")]
    third.committed(5)
    third.append([b"six"])
    third.committed(6)
    third.append([b"seven"])
    if not closed:
        with pytest.raises(JournalTakeover):
            second.append([b"late"])
        second.close()
    third.close()
    fourth = Journal(tmp_path / "j", JournalPosition("id", 6))
    assert numbers(fourth) == [(7, b"seven")]
    fourth.append([b"eight"])
    fourth = open_again(fourth, JournalPosition("id", 6))
    assert numbers(fourth) == [(7, b"seven"), (8, b"eight")]
    fourth.close()


def test_a_late_segment_whose_number_fits_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The records of the late segment end where the next one that counts begins."""
    monkeypatch.setattr(module, "SPENT_BYTES", 0)
    first = Journal(tmp_path / "j", JournalPosition("id"), owner="first")
    first.append([b"one"])
    first.committed(1)
    second = Journal(tmp_path / "j", JournalPosition("id", 1), owner="second", before="first")
    second.append([b"two"])
    with pytest.raises(JournalTakeover):
        first.append([b"late"])
    second.committed(2)
    second.append([b"three"])
    first.close()
    second.close()
    again = Journal(tmp_path / "j", JournalPosition("id", 2))
    assert numbers(again) == [(3, b"three")]
    again.close()


def test_who_took_over_and_wrote_nothing_leaves_no_way_for_late_records(tmp_path: Path) -> None:
    """The next one begins a segment too: its records do not come behind late ones in the same file."""
    first = Journal(tmp_path / "j", JournalPosition("id"), owner="first")
    first.append([b"one"])
    taken_over(first).close()
    assert first._lock is not None
    os.close(first._lock)  # it lies with another machine, whose locks have ended
    first._lock = None
    third = Journal(tmp_path / "j", JournalPosition("id"), owner="third")
    with pytest.raises(JournalTakeover):
        first.append([b"late"])
    third.append([b"two"])
    third.append([b"three"])
    again = open_again(third)
    assert numbers(again) == [(1, b"one"), (2, b"two"), (3, b"three")]
    again.close()


def test_the_newest_term_says_which_late_segments_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The third process read a late record of the first one, before the second one began a segment late that knows
    nothing of it."""
    monkeypatch.setattr(module, "SEGMENT_BYTES", 0)
    first = Journal(tmp_path / "j", JournalPosition("id"), owner="first")
    first.append([b"one"])
    second = taken_over(first)
    with pytest.raises(JournalTakeover):
        first.append([b"two"])
    third = taken_over(second, "third")
    with pytest.raises(JournalTakeover):
        second.append([b"late"])
    third.append([b"three"])
    for ended in (first, second, third):
        ended.close()
    again = Journal(tmp_path / "j", JournalPosition("id"))
    assert numbers(again) == [(1, b"one"), (2, b"two"), (3, b"three")]
    again.close()


def test_a_journal_that_is_refused_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPENT_BYTES", 0)
    spent_by_a_suspended_one(tmp_path / "j")[1].close()
    files = sorted(p.name for p in (tmp_path / "j").iterdir())
    for position in (JournalPosition("id", 1), JournalPosition("another", 4)):
        with pytest.raises(BelvedereError, match="B6141"):
            Journal(tmp_path / "j", position)
    assert sorted(p.name for p in (tmp_path / "j").iterdir()) == files
