"""The SQL of each form, as golden text: `pytest --update` writes it anew, the diff is read."""

from __future__ import annotations

from pathlib import Path

import api_example as example
import pytest
from api_reader import MemoryReader, Recorded

from belvedere.api.graphql.api import Api
from belvedere.store.dialects.sqlite import sqlite
from belvedere.store.read.statements import print_read

GOLDEN = Path(__file__).parent / "statements"

FORMS = {
    "columns": "{ things(limit: 5) { id flag small ratio price wide name at day raw tags } }",
    "filter": '{ things(filter: {or: [{id: {in: [1, 2]}}, {not: {name: {ilike: "a%"}, at: {isNull: false}}}]}) { id } '
    "}",
    "order": "{ things(order: [{name: DESC_NULLS_FIRST}, {ratio: ASC}], offset: 2) { id } }",
    "by_key": "{ monitoringGroupByKey(groupid: 501) { groupName __typename } }",
    "nested": "{ monitoringGroup(filter: {groupid: {eq: 501}}) { groupName machines { machineId } hourReading(limit: "
    "24) { avg_temp } } }",
    "to_one": "{ monitoringGroup { lastHour { time_hour parent { groupName } } } }",
    "bounded_relationship": "{ monitoringGroup { lastHours { avg_temp } top: lastHours(order: {max_temp: DESC}, "
    "limit: 1) { max_temp } } }",
    "condition": "{ monitoringGroup { warmHours(filter: {max_temp: {lt: 40}}) { avg_temp } } }",
    "page": '{ thingsPage(first: 2, after: "5B5D", order: [{small: DESC}]) { nodes { id } endCursor hasNextPage } }',
    "template": '{ thingsNamed(least: 1, name: "ab") { id } }',
}


class _Dialect(Recorded):
    def __init__(self, dialect: str):
        super().__init__(None)
        self.dialect = dialect


def statement(text: str, dialect: str) -> str:
    api = Api(example.catalog(), _Dialect(dialect))
    operation, _ = api.find(text)
    planner = api.operations.planner(operation, {})
    return print_read(planner.plan(api.operations.selections(operation, {})).read, dialect).sql


@pytest.mark.parametrize("form", FORMS)
def test_statements(form: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "IS_EXACT", True)  # whatever library this machine has
    parts = [f"-- {FORMS[form]}"]
    for dialect in ("sqlite", "postgres"):
        parts += [
            "",
            f"-- {dialect}",
            statement(FORMS[form], dialect).replace(" FROM ", "\n  FROM ").replace(" WHERE ", "\n  WHERE "),
        ]
    text = "\n".join(parts) + "\n"
    path = GOLDEN / f"{form}.sql"
    if request.config.getoption("--update"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("form", [f for f in FORMS if f != "page"])
def test_each_form_is_one_statement(form: str) -> None:
    reader = MemoryReader()
    Api(example.catalog(), reader).answer(FORMS[form])
    assert len(reader.statements) == 1
