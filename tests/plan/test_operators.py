"""Each plan operator describes itself, and each operator registry has an entry for it, or a reason why not."""

from __future__ import annotations

import ast
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


MANY = 5
"""Operators that a function tells apart, from which on it is one more place that a new operator has to be looked for
in."""
DEFAULTS = {
    "lang/notices/endless_growth.py: endless": "grows without end if one of its inputs does",
    "lang/notices/endless_growth.py: _limited": "its columns have any number of values",
    "lang/notices/untold_changes.py: _only_arrives": "its rows may change and go",
    "lang/select/recursion.py: _check_step": "is refused in the step of a recursion",
    "lang/select/window_bounds.py: window_end": "its columns are no ends of time windows",
    "optimize/greedy.py: _side_cost": "as large as a relation of the middle size",
    "optimize/indexes.py: stored_columns": "no index below it helps",
    "plan/rewrites/final_columns.py: final_columns": "no hidden time says when its rows are final",
    "provenance/column_labels.py: computed": "its columns are called by their names",
    "provenance/why/backward.py: trace": "makes no groups, of which parts may be left out",
    "provenance/why_not/pushed_tests.py: PASSES": "no test may be asked below it",
    "rules/bounds_below.py: _below": "no bound is known below it",
    "rules/whole.py: _why": "has no key to split by",
    "store/read/computed_views.py: _unlike": "compares no values, so that two zeros make no difference",
    "store/read/recursive.py: flat": "is refused in the step of a recursion",
}
"""Other places that tell operators apart, and what they take of one that they do not name."""


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


def places_that_tell_many_apart() -> set[str]:
    """Functions and constants, but those of registries."""
    names = {o.__name__ for o in operators_of_plans()}
    registries = {f"{_file(m)}: {n}" for m, *ns in (*REGISTRIES, (emit_batch, "HISTORY_STEPS")) for n in ns}
    found = set()
    for path in (ROOT / "belvedere").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if sum(name in text for name in names) >= MANY and "plan.operators" in text:
            for name, part in _parts(ast.parse(text)):
                if len(_told_apart(part) & names) >= MANY:
                    found.add(f"{path.relative_to(ROOT).as_posix()}: {name}")
    return {place.removeprefix("belvedere/") for place in found - registries}


def _parts(module: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Functions, methods and constants by name."""
    for part in (p for top in module.body for p in (top.body if isinstance(top, ast.ClassDef) else [top])):
        if isinstance(part, ast.FunctionDef):
            yield part.name, part
        elif isinstance(part, ast.Assign | ast.AnnAssign):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            yield ast.unparse(target), part


def _told_apart(part: ast.stmt) -> set[str]:
    """The names of classes that `isinstance`, `match`, or a dictionary or tuple of classes tells apart."""
    found: set[str] = set()
    for node in ast.walk(part):
        classes: list[ast.expr] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            classes = [c for c in ast.walk(node.args[1]) if isinstance(c, ast.expr)]
        elif isinstance(node, ast.MatchClass):
            classes = [node.cls]
        elif isinstance(node, ast.Dict | ast.Tuple):
            classes = [k for k in (node.keys if isinstance(node, ast.Dict) else node.elts) if k is not None]
        found |= {c.id for c in classes if isinstance(c, ast.Name)}
    return found


def test_no_other_place_has_to_name_each_operator() -> None:
    """What is new here is a method of `Node`, or a registry, or has a default that holds for operators to come."""
    assert places_that_tell_many_apart() == DEFAULTS.keys()


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
    assert re.findall(r"^\d\. `([\w/.<>]+)`", section, re.MULTILINE) == [
        "belvedere/plan/operators/<operator>.py",
        *files,
    ]
    assert len(files) == 5
