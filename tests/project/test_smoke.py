"""`make test` runs at least once for real: each rule, connector, command, database and way to ask."""

from __future__ import annotations

import pytest

from belvedere.cli import COMMANDS
from belvedere.connectors.registry import OWN_CONNECTORS
from belvedere.store.dialects import DIALECTS
from tests.rules.test_fixtures import NAMES as RULES
from tests.smoke import SHOWN

WAYS = ("GraphQL", "REST", "live query", "event stream", "push", "MCP", "console", "Workbench", "belvedere.sql")


@pytest.fixture
def shown(request: pytest.FixtureRequest) -> set[str]:
    """What the marked tests of the whole collection run."""
    found = request.config.stash[SHOWN]
    if found is None:
        pytest.skip("only a part of the tests was collected")
    return set(found)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("rule", RULES),
        ("connector", OWN_CONNECTORS),
        ("command", COMMANDS),
        ("store", DIALECTS),
        ("way", WAYS),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_each_has_a_test_that_make_test_runs(kind: str, names: list[str], shown: set[str]) -> None:
    assert {f"{kind} {name}" for name in names} - shown == set()


def test_no_mark_names_what_is_not_there(shown: set[str]) -> None:
    kinds = {"rule": set(RULES), "connector": set(OWN_CONNECTORS), "command": set(COMMANDS)}
    kinds |= {"store": set(DIALECTS), "way": set(WAYS)}
    assert {s for s in shown if s.partition(" ")[2] not in kinds.get(s.partition(" ")[0], set())} == set()
