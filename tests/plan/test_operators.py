"""Each operator of a plan says what it is, and each registry of operators has an entry for it, or the reason why not."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from belvedere.engine.sql import plan_sql
from belvedere.optimize import costs
from belvedere.plan import operators
from belvedere.plan.cached_values import cached_property
from belvedere.plan.operators.node import Node
from belvedere.provenance.why import backward
from belvedere.provenance.why_not import pruning_operators
from belvedere.rules.emit import emit_batch
from belvedere.schema import Schema
from belvedere.store.read import operators as store_operators

ROOT = Path(__file__).parents[2]
REGISTRIES = (
    (plan_sql, "SPARK_SQL", "NOT_SPARK_SQL"),
    (store_operators, "STORE_SQL", "NOT_STORE_SQL"),
    (costs, "COSTS", "NOT_COSTED"),
    (backward, "STEPS", "NOT_TRACED"),
    (pruning_operators, "LOSSES", "NOT_FOLLOWED"),
)
"""Modules, what an operator is there, and why it is not."""


def operators_of_plans() -> list[type[Node]]:
    """All operators, of all modules beside `node`."""
    for module in pkgutil.iter_modules(operators.__path__, operators.__name__ + "."):
        importlib.import_module(module.name)
    return sorted((c for c in _below(Node) if c.__module__.startswith("belvedere.")), key=lambda c: c.__name__)


def _below(cls: type[Node]) -> Iterator[type[Node]]:
    for found in cls.__subclasses__():
        yield found
        yield from _below(found)


def unsaid(operator: type[Node]) -> list[str]:
    """What a registry wants to know of an operator."""
    found = [
        f"{_file(module)}: {operator.__name__} is neither in {entries} nor, with a reason, in {reasons}"
        for module, entries, reasons in REGISTRIES
        if operator not in getattr(module, entries) and operator not in getattr(module, reasons)
    ]
    if operator.is_historic and operator not in emit_batch.HISTORY_STEPS:
        found.append(f"{_file(emit_batch)}: {operator.__name__} is not in HISTORY_STEPS")
    return found


def _file(module: Any) -> str:
    return f"{module.__name__.replace('.', '/')}.py"


@pytest.mark.parametrize("operator", operators_of_plans())
def test_each_registry_knows_each_operator(operator: type[Node]) -> None:
    assert unsaid(operator) == []
    assert {"schema", "text"} <= vars(operator).keys()  # what has no default


@pytest.mark.parametrize(("module", "entries", "reasons"), REGISTRIES)
def test_registries_say_one_thing(module: Any, entries: str, reasons: str) -> None:
    known: Mapping[type[Node], Any] = getattr(module, entries)
    refused: Mapping[type[Node], str] = getattr(module, reasons)
    assert not known.keys() & refused.keys()
    assert {*known, *refused} <= {*operators_of_plans()}
    assert all(reason.strip() for reason in refused.values())


def test_only_operators_with_history_have_steps() -> None:
    assert {o for o in operators_of_plans() if o.is_historic} == emit_batch.HISTORY_STEPS.keys()


@dataclass(frozen=True)
class Sampled(Node):
    """An operator that is new: some of the rows of its input."""

    input: Node
    share: float

    @cached_property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def text(self) -> str:
        return f"sample {self.share}"


def test_a_new_operator_is_one_file_and_five_entries() -> None:
    """As CONTRIBUTING.md says."""
    files = [line.split(":")[0] for line in unsaid(Sampled)]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("### A new operator")[2].partition("\n#")[0]
    assert re.findall(r"^\d\. `([\w/.<>]+)`", section, re.MULTILINE) == ["belvedere/plan/operators/<operator>.py", *files]
    assert len(files) == 5
