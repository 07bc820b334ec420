"""A run that goes on hears that views in quarantine are to be tried again, and tries them at once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from belvedere.spark.run.run_loop import RunLoop, RunSettings
from belvedere.spark.run.stop_flag import StopFlag


def test_a_run_hears_that_views_are_to_be_tried_again() -> None:
    asked, stopped, tried = [0], StopFlag(), list[str]()
    engine: Any = SimpleNamespace(
        try_again=lambda: tried.append("again"),
        is_to_heal=lambda now: bool(tried),
        is_due=lambda now: False,
        exports=SimpleNamespace(catch_up=lambda wait: ()),
    )
    store: Any = SimpleNamespace(last_epoch=lambda: None, acquire=lambda *_: None)
    sources: Any = SimpleNamespace(
        feeds={},
        idles=lambda now: False,
        close=lambda: None,
        pushes=SimpleNamespace(wait=lambda seconds: None, has_waiting=False),
    )
    loop = RunLoop(None, engine, store, sources, RunSettings(0.01), stopped=stopped, heals=lambda: asked[0])  # type: ignore[arg-type]
    epochs: list[bool] = []

    def run_epoch(requested: bool) -> bool:
        epochs.append(requested)
        loop.last = loop.last or SimpleNamespace(clock=loop.clock.now())  # type: ignore[assignment]
        if tried:
            stopped.set()
        return True

    loop._run_epoch = run_epoch  # type: ignore[method-assign]
    thread = threading.Thread(target=loop.run)
    thread.start()
    asked[0] += 1
    thread.join(20)
    assert not thread.is_alive()
    assert (tried, epochs) == (["again"], [True, True])
