"""A store's folders are found by its id: several stores, renamed, copied, restored, and without an id."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from belvedere.backups import restore_backup, take_backup
from belvedere.compiler import compile_script
from belvedere.connectors.project_file import load_project
from belvedere.engine.store_folders import DOCUMENT, open_state, others_of, own_identity, read_state
from belvedere.errors import BelvedereError
from belvedere.intake.ingest_service import OFFSET
from belvedere.intake.journal import Journal, JournalPosition
from belvedere.spark.run.runner import Runner
from belvedere.store import open_reader, open_store
from belvedere.store.identity import identity_of
from tests.store.samples import epoch

SCRIPT = "CREATE STREAM Notes (n BIGINT);\nAll := SELECT n FROM Notes;\n"


def committed(url: str, number: int, offsets: dict[str, object] | None = None) -> str:
    """Commit an epoch with an empty state to a store; the store's id."""
    with closing(open_store(url)) as store:
        state = open_state(store, None)
        store.begin().commit(epoch(number, offsets=offsets or {}))
        state.committed()
        state.close()
        return identity_of(store).id


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "shop.sqrl"
    path.write_text(SCRIPT)
    return path


def code_of(error: pytest.ExceptionInfo[BelvedereError]) -> str:
    return error.value.diagnostics[0].code


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def two(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Two stores that had one folder when folders were found by names."""
    if request.param == "postgres":
        make = request.getfixturevalue("new_database")
        return make(), make()
    return f"sqlite:///{tmp_path}/shop.db", f"sqlite:///{tmp_path}/shop.test"


def run_of(script: Path, url: str) -> Runner:
    """A run, as far as its journal."""
    return Runner(script, compile_script(SCRIPT).catalog, load_project(script.parent), url)


def records(runner: Runner) -> list[bytes]:
    assert runner.ingest_service is not None
    return [payload for _, payload in runner.ingest_service.journal.records()]


def test_stores_side_by_side_share_nothing(script: Path, two: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What one is sent, and deletes, is no other's: also before its first epoch, and while both are open."""
    monkeypatch.setattr(
        "belvedere.intake.ingest_service.IngestService._replay", lambda self, sequence: None
    )  # the records here mean nothing
    first, second = two
    with run_of(script, first) as one:
        assert one.ingest_service is not None
        one.ingest_service.journal.append([b"of the first"])
        state = open_state(one.store, None)
        (state.folder).mkdir(parents=True, exist_ok=True)
        (state.folder / "a.run").write_bytes(b"state")
        with run_of(script, second) as other:
            assert other.ingest_service is not None
            assert records(other) == []
            other.ingest_service.journal.append([b"of the second"])
            beside = open_state(other.store, None)
            assert beside.folder.name == identity_of(other.store).id != identity_of(one.store).id
            beside.committed()  # which sweeps
            beside.close()
        assert (state.folder / "a.run").read_bytes() == b"state"
        state.close()
    with run_of(script, first) as one, run_of(script, second) as other:
        assert (records(one), records(other)) == ([b"of the first"], [b"of the second"])
        reported: list[str] = []
        one.notify = reported.append
        one._report_other_stores()
        assert any(identity_of(other.store).id in text for text in reported)


def test_a_journal_of_another_store_is_refused(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("belvedere.intake.ingest_service.IngestService._replay", lambda self, sequence: None)
    first, second = f"sqlite:///{tmp_path}/shop.db", f"sqlite:///{tmp_path}/shop.test"
    with run_of(script, first) as one, run_of(script, second) as other:
        assert one.ingest_service is not None
        one.ingest_service.journal.append([b"a"])
        ids = one.identity.id, other.identity.id
    shutil.rmtree(tmp_path / "shop.intake" / ids[1])
    shutil.copytree(tmp_path / "shop.intake" / ids[0], tmp_path / "shop.intake" / ids[1])
    with pytest.raises(BelvedereError) as caught:
        run_of(script, second)
    assert code_of(caught) == "B6141"


def test_folders_follow_a_renamed_store_and_a_copy_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    id_ = committed(url, 1)
    for folder in ("shop.state", "shop.intake"):
        (tmp_path / folder / id_).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / id_ / "kept").touch()
    shutil.copy(tmp_path / "shop.db", tmp_path / "shop.copy")
    with closing(open_store(f"sqlite:///{tmp_path}/shop.copy")) as store, pytest.raises(BelvedereError) as caught:
        own_identity(store)
    assert code_of(caught) == "B7065"
    (tmp_path / "shop.copy").unlink()
    (tmp_path / "shop.db").rename(tmp_path / "café.db")
    committed(f"sqlite:///{tmp_path}/café.db", 2)
    for folder in ("café.state", "café.intake"):
        assert (tmp_path / folder / id_ / "kept").exists()
    assert not list(tmp_path.glob("shop.*/*"))
    assert others_of(tmp_path / "café.state" / id_) == ()


def test_state_is_found_where_the_project_says_after_a_move(tmp_path: Path) -> None:
    """The place that was noted is no longer there; commands that only look find the state all the same."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    with closing(open_store(f"sqlite:///{before}/shop.db")) as store:
        state = open_state(store, before / "elsewhere")
        state.folder.mkdir(parents=True)
        state.close()
        store.begin().commit(epoch(1))
        id_ = identity_of(store).id
    before.rename(after)
    url = f"sqlite:///{after}/shop.db"
    with closing(open_reader(url)) as reader, closing(read_state(reader, url, after / "elsewhere")) as found:
        assert found.folder == after / "elsewhere" / id_


def test_a_state_that_lies_elsewhere_is_not_begun_anew(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/shop.db"
    with closing(open_store(url)) as store:
        state = open_state(store, tmp_path / "elsewhere")
        state.folder.mkdir(parents=True)
        state.close()
        store.begin().commit(epoch(1, extra={"state": {"file": "a.run", "offset": 0, "length": 1, "checksum": 0}}))
        with pytest.raises(BelvedereError) as caught:
            open_state(store, None)
    assert code_of(caught) == "B7061"
    assert "mv " in (caught.value.diagnostics[0].hint or "")


# --- restored


@pytest.fixture
def backed_up(tmp_path: Path) -> tuple[str, Path, str]:
    """A store with a journal of three records, of which an epoch has one; a backup with two; the store's id."""
    url, intake = f"sqlite:///{tmp_path}/shop.db", tmp_path / "shop.intake"
    with closing(open_store(url)) as store:
        id_ = identity_of(store).id
    with closing(Journal(intake / id_, JournalPosition(id_))) as journal:
        journal.append([b"one"])
        committed(url, 1, {OFFSET: {"journal": id_, "sequence": 1}})
        journal.append([b"two"])
        take_backup(url, intake, tmp_path / "backup")
        journal.append([b"three"])
    return url, tmp_path / "backup", id_


def journal_of(intake: Path, url: str, sequence: int) -> list[bytes]:
    with closing(open_store(url)) as store:
        identity = identity_of(store)
    with closing(Journal(intake / identity.id, JournalPosition(identity.journal, sequence))) as journal:
        return [payload for _, payload in journal.records()]


def test_a_copy_has_an_id_and_a_journal_of_its_own(tmp_path: Path, backed_up: tuple[str, Path, str]) -> None:
    """While a run has the journal open the copy gets what the backup has; else what was pushed since, too. Neither
    takes from the other."""
    first, backup, id_ = backed_up
    intake, second, third = (
        tmp_path / "shop.intake",
        f"sqlite:///{tmp_path}/shop.two",
        f"sqlite:///{tmp_path}/shop.three",
    )
    with closing(Journal(intake / id_, JournalPosition(id_, 1))) as open_journal:
        assert restore_backup(backup, second, intake, None)[1] == 0
        open_journal.append([b"four"])
    assert restore_backup(backup, third, intake, None)[1] == 2
    assert journal_of(intake, second, 1) == [b"one", b"two"]
    assert journal_of(intake, third, 1) == journal_of(intake, first, 1) == [b"one", b"two", b"three", b"four"]
    with closing(open_store(first)) as one, closing(open_store(second)) as two, closing(open_store(third)) as three:
        identities = [identity_of(s) for s in (one, two, three)]
        assert len({i.id for i in identities}) == len({i.sinks for i in identities}) == 3
        assert [json.loads(s.document(DOCUMENT) or "")["id"] for s in (two, three)] == [i.id for i in identities[1:]]
    # the position of the epoch counts on
    with closing(Journal(intake / identities[1].id, JournalPosition(identities[1].journal, 1))) as journal:
        journal.append([b"of the copy"])
        assert journal.last == 3
    assert journal_of(intake, first, 1)[-1] == b"four"


def test_a_restore_that_failed_leaves_nothing_and_can_be_repeated(
    tmp_path: Path, backed_up: tuple[str, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, backup, _ = backed_up
    target, intake = f"sqlite:///{tmp_path}/again.db", tmp_path / "again.intake"

    def full(*_: object) -> None:
        raise OSError(28, "no space")

    for place in ("put_back", "write_journal"):
        with monkeypatch.context() as patched:
            patched.setattr(f"belvedere.backups.restoring.{place}", full)
            with pytest.raises((OSError, BelvedereError)):
                restore_backup(backup, target, intake, None)
        assert not [*tmp_path.glob("again.state/*"), *intake.glob("*"), *tmp_path.glob("again.db*")]
    restore_backup(backup, target, intake, None)
    assert journal_of(intake, target, 1) == [b"one", b"two"]


def test_a_journal_that_does_not_reach_back_is_left_alone(tmp_path: Path, backed_up: tuple[str, Path, str]) -> None:
    """The old store's journal is of later records alone: the backup's goes on."""
    _, backup, id_ = backed_up
    intake, target = tmp_path / "shop.intake", f"sqlite:///{tmp_path}/again.db"
    shutil.rmtree(intake / id_)
    with closing(Journal(intake / id_, JournalPosition(id_, 7))) as journal:
        journal.append([b"eight"])
    assert restore_backup(backup, target, intake, None)[1] == 0
    assert journal_of(intake, target, 1) == [b"one", b"two"]
    assert [p.name for p in intake.iterdir() if p.name == id_] == [id_]


def test_every_store_has_an_id(tmp_path: Path) -> None:
    urls = [f"sqlite:///{tmp_path}/{n}.db" for n in range(2)]
    found = set()
    for url in urls:
        open_store(url).close()
        with closing(open_reader(url)) as reader:
            found.add(identity_of(reader).id)
    assert len(found) == 2
    with closing(sqlite3.connect(tmp_path / "0.db")) as connection:
        assert connection.execute("SELECT count(*) FROM _belvedere_document WHERE name = '_identity'").fetchone() == (
            1,
        )
