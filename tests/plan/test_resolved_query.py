"""A definition with resolved names is packed for other processes, and unpacked at its first use."""

from __future__ import annotations

import pickle
from threading import Thread
from typing import Any

import pytest
from sqlglot import exp

from belvedere.catalog import resolved_query
from belvedere.catalog.resolved_query import ResolvedQuery

QUERY = ResolvedQuery(exp.select("x").from_("t"), {}, "", "t")


def test_it_is_unpacked_when_it_is_read() -> None:
    sent = pickle.loads(pickle.dumps(QUERY))
    assert pickle.loads(pickle.dumps(sent)).tree == QUERY.tree
    assert (sent.tree, sent.owner) == (QUERY.tree, "t")
    assert sent == QUERY
    with pytest.raises(AttributeError, match="no_such"):
        sent.no_such  # noqa: B018


def test_two_threads_unpack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.loads(pickle.dumps(QUERY))
    found: list[str] = []

    def while_another_reads(packed: bytes) -> Any:
        monkeypatch.undo()
        thread = Thread(target=lambda: found.append(sent.owner))
        thread.start()
        thread.join()
        return pickle.loads(packed)

    monkeypatch.setattr(resolved_query.pickle, "loads", while_another_reads)
    assert sent.owner == "t"
    assert found == ["t"]
