"""What stages remember lies in the epoch's row as stores of before have it; no Spark is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest

import belvedere.pipeline.choose  # noqa: F401 all rules, and so all stages, are known
from belvedere.engine.sql.stage_sql import PreparedStage
from belvedere.engine.stage import Stage
from belvedere.engine.work import EpochContext, Work
from belvedere.rules.emit.in_order import InOrderMemory
from belvedere.rules.spl.firing_memory import WindowMemory
from belvedere.rules.top_k.first import FirstMemory
from belvedere.store.stage_memory import HistoryMemory, Memories, Numbered, StageMemory

BEFORE: dict[type[StageMemory], dict[str, int]] = {
    Numbered: {"V": 8},
    HistoryMemory: {"V began": 3, "V began at": 1_700_000_000_000_000},
    InOrderMemory: {"V": 8, "V arrived": 12, "V highest": 9},
    FirstMemory: {"V$complete": 1},
    WindowMemory: {"V": 8, "V firings": 4, "V ticked": 7, "V watermark": 6, "V late": 5},
}
"""The numbers of stages in a store of before."""


def stages(of: type[Stage] = Stage) -> Iterator[type[Stage]]:
    yield of
    for sub in of.__subclasses__():
        yield from stages(sub)


@pytest.mark.parametrize("kind", BEFORE, ids=lambda k: str(k.__name__))
def test_a_store_of_before_is_read_and_written_alike(kind: type[StageMemory]) -> None:
    memories = Memories.of({"sequences": {**BEFORE[kind], "Other": 2}})
    memory = memories.recall("V", kind)
    assert [getattr(memory, f.name) for f in fields(kind)] == list(BEFORE[kind].values())
    memories.remember("V", memory)
    assert memories.document() == {**BEFORE[kind], "Other": 2}


KINDS: list[type[StageMemory]] = sorted({s.memory for s in stages()}, key=lambda k: k.__name__)


@pytest.mark.parametrize("kind", KINDS, ids=[k.__name__ for k in KINDS])
def test_what_begins_again_leaves_no_number(kind: type[StageMemory]) -> None:
    stored = {n: v for before in BEFORE.values() for n, v in before.items()}
    memories = Memories(stored)
    memories.remember("V", kind())
    names = {name for _, name in kind._numbers("V")}
    assert names <= stored.keys(), "a new number has its case in BEFORE"
    assert memories.document() == {n: v for n, v in stored.items() if n not in names}


def test_windows_that_are_computed_again_go_on_with_the_numbers_of_their_rows() -> None:
    memory = Memories(BEFORE[WindowMemory]).recall("V", WindowMemory)
    memory.forget()
    memories = Memories(BEFORE[WindowMemory])
    memories.remember("V", memory)
    assert memories.document() == {"V": 8}
    assert memories.last_number("V") == 7
    assert memories.last_number("Unknown") == 0


def test_a_stage_recalls_only_what_its_rule_declares() -> None:
    relation: Any = SimpleNamespace(name="V")
    context = EpochContext(*[None] * 7, memories=Memories({"V": 8}))  # type: ignore[arg-type, misc]
    work = Work(PreparedStage(0, relation, "V", {}, (), {}, memory=InOrderMemory), context)
    assert list(work.recall(Numbered).take_numbers(2)) == [8, 9]
    assert work.recall(InOrderMemory).next_number == 10, "one value for all who ask"
    with pytest.raises(AssertionError, match="V declares no HistoryMemory"):
        work.recall(HistoryMemory)
