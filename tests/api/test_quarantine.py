"""What answers and `/status` say of views in quarantine, over rows of epochs as runs write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import api_example as example
import pytest
from api_reader import MemoryReader
from starlette.testclient import TestClient

from belvedere.api.http.application import Application
from belvedere.api.http.status import status_of
from belvedere.api.serving.processes import ServerSettings
from belvedere.engine.errors.failed_stages import DOCUMENT, Failed, failures_document, quarantined
from belvedere.engine.errors.quarantine import failure_text, healing_text
from belvedere.store import EpochRow

GOOD = {"Things": 4, "MonitoringGroup.machines": None}
FAILED = Failed(
    "Things$1", "m", "Things", 5, 0, "B7040", 'view "Things" failed: divide by zero', "in row 3", "use nullif", GOOD
)


def held_reader(*failed: Failed) -> MemoryReader:
    made = MemoryReader()
    made.connection.execute(
        "UPDATE _belvedere_epoch SET content = ?", (json.dumps({"extra": failures_document(failed)}),)
    )
    return made


def client_of(reader: Any) -> TestClient:
    return TestClient(Application(example.catalog(), lambda: reader, ServerSettings()))


def asked(client: TestClient, text: str) -> Any:
    answer = client.post("/graphql", json={"query": text}).json()
    assert "errors" not in answer, answer
    return answer["extensions"].get("quarantined")


def test_answers_name_the_views_that_they_have_read() -> None:
    with client_of(held_reader(FAILED)) as client:
        things = [{"view": "Things", "epoch": 4}]
        assert asked(client, "{ things { id } }") == things
        assert asked(client, "{ things { id } }") == things, "the second answer of an epoch says it too"
        assert asked(client, '{ thingsNamed(least: 1, name: "x") { id } }') == things, "a query template reads the view"
        assert asked(client, "{ monitoringGroup { groupid machines { machineId } } }") == [
            {"view": "MonitoringGroup.machines", "epoch": None}
        ]
        assert asked(client, "{ monitoringGroup { groupid } }") is None
        assert client.get("/rest/things").headers["belvedere-quarantined"] == "Things=4"
        assert "belvedere-quarantined" not in client.get("/rest/monitoringGroup?select=groupid").headers


def test_nothing_is_said_where_all_is_well() -> None:
    with client_of(held_reader()) as client:
        assert asked(client, "{ things { id } }") is None


def test_the_status_says_why() -> None:
    catalog = example.catalog()
    row = EpochRow(7, datetime(2024, 1, 1, tzinfo=UTC), extra=failures_document([FAILED]))
    views = {v["id"]: v.get("quarantine") for v in status_of(catalog, row, takes_pushes=False)["views"]}
    assert views["Things"] == {
        "epoch": 4,
        "view": "Things",
        "since": 5,
        "at": "1970-01-01T00:00:00Z",
        "code": "B7040",
        "error": 'view "Things" failed: divide by zero',
        "detail": "in row 3",
        "hint": "use nullif",
    }
    assert views["MonitoringGroup.hourReading"] is None


def test_a_view_behind_two_failures_shows_the_older_epoch() -> None:
    other = Failed("B", "n", "B", 7, 0, "B7040", "x", good={"Things": 6, "B": 6})
    assert quarantined([other, FAILED]) == {"Things": 4, "B": 6, "MonitoringGroup.machines": None}
    assert [Failed.of_document(d) for d in json.loads(json.dumps(failures_document([FAILED])[DOCUMENT]))] == [FAILED]


@pytest.mark.parametrize("failed", [(), (FAILED,)])
def test_the_row_of_an_epoch_is_read_once(failed: tuple[Failed, ...]) -> None:
    reader = held_reader(*failed)
    asked_for: list[str] = []
    execute = reader.execute

    def counted(sql: str, parameters: Any = ()) -> Any:
        asked_for.append(sql)
        return execute(sql, parameters)

    reader.execute = counted  # type: ignore[method-assign]
    with client_of(reader) as client:
        for _ in range(5):
            client.post("/graphql", json={"query": "{ things { id } }"})
    assert sum("content LIKE" in sql for sql in asked_for) == 1


def test_people_are_told_what_stands_still_and_what_to_do() -> None:
    said = ('view "Q" failed: divide by zero', "in row 3", "use nullif")
    behind = Failed("Q$2", "m", "Q", 5, 0, "B7040", *said, {"Q": 4, "R~1": 4}, reason="divide by zero")
    assert failure_text(behind) == (
        'B7045: "Q" is in quarantine since epoch 5 and shows epoch 4, and so are the views that read it: R: '
        "divide by zero: in row 3; use nullif. It recovers when the row is deleted or replaced, or with a corrected "
        "script"
    )
    assert "has no rows yet" in failure_text(Failed("Q", "m", "Q", 1, 0, "B7040", "x", good={"Q": None}))
    assert healing_text(behind) == '"Q" is out of quarantine: it is up to date, with R'
