"""The wait of a run on standby, by itself: what ends it, and what it must see of the other run. No Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from belvedere.errors import BelvedereError
from belvedere.intake.journal import Journal, JournalPosition
from belvedere.spark.run import standby
from belvedere.spark.run.lease import LOST, LeaseRenewal, lease_seconds
from belvedere.spark.run.standby import Standby
from belvedere.store import Store, open_store
from tests.run.processes import wait_for


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return (
        str(request.getfixturevalue("postgres_url"))
        if request.param == "postgres"
        else f"sqlite:///{tmp_path / 's.db'}"
    )


def held(url: str, owner: str = "active") -> Store:
    store = open_store(url)
    store.acquire(owner, 60)
    return store


def waiting(url: str, take: Any, journal: Path | None = None, looks: int = 3) -> Any:
    """What the wait gives; it is to end after some looks at the lease."""
    left = [looks]

    def check() -> None:
        left[0] -= 1

    return Standby(url, journal, lambda: left[0] <= 0, lambda text: None).wait(take, check)


def test_it_takes_what_is_free_and_nothing_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(standby, "AWAY_SECONDS", 0.01)
    active = held(url)
    assert waiting(url, lambda: pytest.fail("it is not free")) is None
    active.close()
    tried = list[str]()

    def take() -> str:
        tried.append("quicker")
        with closing(held(url, f"run {len(tried)}")):
            if len(tried) == 1:  # another one was quicker
                held(url, "another").close()
        return "taken"

    assert waiting(url, take, looks=9) == "taken"
    assert len(tried) == 2


def test_a_journal_that_is_not_the_other_runs_ends_the_wait(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(standby, "SEEN_SECONDS", 0.0)
    with closing(held(url)):
        for folder in (tmp_path / "nothing", tmp_path / "other"):
            if folder.name == "other":
                Journal(folder, JournalPosition(), owner="somebody")
            with pytest.raises(BelvedereError, match='runner "active" is not in') as error:
                waiting(url, lambda: None, folder)
            assert error.value.diagnostics[0].code == "B7066"
        with closing(Journal(tmp_path / "own", JournalPosition(), owner="active")):
            assert waiting(url, lambda: None, tmp_path / "own") is None


def test_a_lease_is_renewed_until_it_is_lost(url: str) -> None:
    store = held(url, "first")
    assert lease_seconds(store, None) == (30.0 if store.renews_alone else 600.0)
    assert lease_seconds(store, "2 s") == 2.0
    store.acquire("first", 0.3)
    renewal = LeaseRenewal(store, 0.3)

    def is_renewed() -> bool:
        renewal.go_on()
        return store.acquire("first", 0.3) is not None

    wait_for(is_renewed, "it is not renewed", 5)
    other = open_store(url)
    renewal.stop()
    wait_for(lambda: other.holder() is None, "it does not run out", 5)
    other.acquire("second", 60)
    late = LeaseRenewal(store, 0.06)

    def is_lost() -> bool:
        try:
            late.go_on()
        except BelvedereError as error:
            return error.diagnostics[0].code == LOST
        return False

    wait_for(is_lost, "it does not notice that the lease is lost", 5)
    late.stop()
    other.close()
    store.close()
