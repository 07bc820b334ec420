"""A store whose last epoch lies in the future: a run waits for the clock, or for the word that it is right."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from belvedere.compiler import compile_script
from belvedere.errors import BelvedereError
from belvedere.project.settings import ProjectSettings
from belvedere.spark.run.runner import Runner
from belvedere.spark.run.stop_flag import StopFlag
from belvedere.store import open_store
from belvedere.store.protocol import EpochRow


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path / 'ahead.db'}"
    store = open_store(found)
    store.acquire("test", 60)
    store.begin().commit(EpochRow(1, datetime.now(UTC) + timedelta(days=10)))
    store.release("test")
    store.close()
    return found


def runner(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, once: bool = False, accept_clock: bool = False
) -> Runner:
    """A runner that would end where Spark starts."""

    def start_spark(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("belvedere.spark.run.runner.quiet_session", start_spark)
    catalog = compile_script("CREATE STREAM S (a INT) KEEP 1 DAY; V := SELECT a FROM S;").catalog
    return Runner(tmp_path / "s.sqrl", catalog, ProjectSettings(tmp_path), url, once=once, accept_clock=accept_clock)


def test_a_run_of_one_round_is_refused(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        runner(url, tmp_path, monkeypatch, once=True) as refused,
        pytest.raises(
            BelvedereError, match="B7033: the store's last epoch is 10 days ahead of the clock of this machine"
        ),
    ):
        refused.run(lambda progress: None, StopFlag())
    with runner(url, tmp_path, monkeypatch, once=True, accept_clock=True) as accepted, pytest.raises(KeyboardInterrupt):
        accepted.run(lambda progress: None, StopFlag())


def test_a_run_waits_and_says_so_once(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped, reported = StopFlag(), list[str]()
    monkeypatch.setattr(
        "belvedere.spark.run.runner._wait",
        lambda seconds, flag: stopped.set() if len(waited) > 2 else waited.append(seconds),
    )
    waited: list[float] = []
    with runner(url, tmp_path, monkeypatch) as waiting:
        waiting.run(lambda progress: None, stopped, reported.append)
    assert len(waited) == 3
    assert len(reported) == 1
    assert "10 days ahead" in reported[0]
    assert "--accept-clock" in reported[0]
