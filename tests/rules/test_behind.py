"""Writes behind run in their order, and what one raises comes out."""

from __future__ import annotations

import threading

import pytest

from belvedere.engine.write_behind import WritesBehind


def test_writes_run_in_order_in_another_thread() -> None:
    done: list[tuple[int, bool]] = []
    behind = WritesBehind()
    for n in range(20):
        behind.do(lambda n=n: done.append((n, threading.current_thread() is threading.main_thread())))
    behind.settle()
    assert done == [(n, False) for n in range(20)]
    behind.close()


def test_an_error_comes_out_and_nothing_runs_after_it() -> None:
    done: list[int] = []
    go = threading.Event()
    behind = WritesBehind()

    def fails() -> None:
        go.wait()
        raise OSError("the disk is full")

    behind.do(fails)
    behind.do(lambda: done.append(1))
    go.set()
    with pytest.raises(OSError, match="disk"):
        behind.settle()
    with pytest.raises(OSError, match="disk"):
        behind.settle()
    behind.close()
    assert not done


def test_closing_waits_for_the_write_that_runs_and_drops_the_others() -> None:
    done: list[int] = []
    started, go = threading.Event(), threading.Event()
    behind = WritesBehind()

    def slow() -> None:
        started.set()
        go.wait()
        done.append(0)

    behind.do(slow)
    behind.do(lambda: done.append(1))
    started.wait()
    threading.Timer(0.05, go.set).start()
    behind.close()
    assert done == [0]
