"""The OpenAPI document is valid and complete; requests that schemathesis generates get documented answers, never
500."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import api_example as example
import hypothesis.strategies as st
import pytest
import schemathesis
from api_reader import MemoryReader
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

from belvedere.api.access.gate import ServerSettings
from belvedere.api.http.application import Application
from belvedere.api.limits import Limits
from belvedere.compiler import compile_script
from tests.depth import examples

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SCRIPT = """
/** Who buys. */
CREATE TABLE Buyers (
  id BIGINT NOT NULL,
  /** What people call them. */
  name STRING,
  part STRING NOT NULL,
  PRIMARY KEY (id, part)
);
CREATE TABLE Problem (id INT NOT NULL, `select` INT, PRIMARY KEY (id));
/*+ query_by_all(name) */
Dear := SELECT id, part, name FROM Buyers WHERE id > 10 WITH HISTORY;
Buyers.same(least BIGINT) := JOIN Buyers b ON b.name = _.name AND b.id >= :least;
Named(name STRING, least BIGINT = 3) := SELECT * FROM Buyers WHERE name = :name AND id > :least;
"""


def document_of(application: Application) -> dict[str, Any]:
    with TestClient(application) as client:
        answer = client.get("/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    found: dict[str, Any] = answer.json()
    validate(found)
    return found


def application_of(reader: Any, **given: Any) -> Application:
    return Application(example.catalog(), lambda: reader, ServerSettings(**given))


def test_the_document_says_what_is_served() -> None:
    found = document_of(application_of(MemoryReader()))
    assert list(found["paths"]) == [
        "/rest/monitoringGroup",
        "/rest/monitoringGroup/{groupid}",
        "/rest/monitoringGroup/why-not",
        "/rest/monitoringGroup/{groupid}/why",
        "/rest/monitoringGroup_machines",
        "/rest/monitoringGroup_machines/why-not",
        "/rest/monitoringGroup_hourReading",
        "/rest/monitoringGroup_hourReading/why-not",
        "/rest/things",
        "/rest/things/{id}",
        "/rest/things/why-not",
        "/rest/things/{id}/why",
        "/rest/thingsNamed",
    ]
    assert "security" not in found
    text = json.dumps(found)
    assert "_secret" not in text
    assert "Private" not in text
    group = found["components"]["schemas"]["MonitoringGroup"]
    assert group["description"] == "Groups of machines."
    assert group["properties"]["groupid"] == {"type": "integer", "format": "int32"}
    assert group["properties"]["groupName"] == {"type": ["string", "null"], "description": "What people call it."}
    assert group["properties"]["machines"]["items"] == {"$ref": "#/components/schemas/MonitoringGroup_machines"}
    assert group["properties"]["lastHour"]["anyOf"][1] == {"type": "null"}
    listed = found["paths"]["/rest/things"]["get"]
    price = next(p for p in listed["parameters"] if p["name"] == "price")
    assert "eq, neq, gt" in price["description"]
    limit = next(p for p in listed["parameters"] if p["name"] == "limit")
    assert (limit["schema"]["default"], limit["schema"]["maximum"]) == (100, 1_000)
    template = found["paths"]["/rest/thingsNamed"]["get"]["parameters"]
    assert [(p["name"], p["required"]) for p in template[:2]] == [("least", True), ("name", True)]


def test_of_a_script() -> None:
    compiled = compile_script(SCRIPT)
    assert not [d for d in compiled.diagnostics if d.severity == "error"]
    found = document_of(Application(compiled.catalog, MemoryReader))
    assert "/rest/buyers/{id},{part}" in found["paths"]
    buyers = found["components"]["schemas"]["Buyers"]
    assert buyers["description"] == "Who buys."
    assert buyers["properties"]["name"]["description"] == "What people call them."
    assert buyers["properties"]["same"]["description"].endswith("Parameters: least.")
    parameters = {p["name"]: p for p in found["paths"]["/rest/dear"]["get"]["parameters"]}
    assert parameters["name"]["required"]
    assert not parameters["id"]["required"]
    assert "as_of" in parameters
    assert found["paths"]["/rest/named"]["get"]["parameters"][1]["schema"]["default"] == 3
    named = found["paths"]["/rest/named"]["get"]
    assert [p["name"] for p in named["parameters"]] == [
        "name",
        "least",
        "select",
        "limit",
        "offset",
        "order",
        "and",
        "or",
        "id",
        "part",
    ]
    assert named["responses"]["200"]["content"]["application/json"]["schema"]["items"]["$ref"].endswith("/Buyers")
    schemas = found["components"]["schemas"]
    assert "select" in schemas["Problem"]["properties"]
    assert schemas["Problem_"]["required"] == ["title", "status", "code", "message"]
    assert found["components"]["responses"]["Error404"]["content"]["application/problem+json"]["schema"][
        "$ref"
    ].endswith("/Problem_")


def test_who_may_read_it() -> None:
    with TestClient(application_of(MemoryReader(), token="secret")) as client:
        assert client.get("/openapi.json").status_code == 401
        found = client.get("/openapi.json", headers={"authorization": "Bearer secret"}).json()
        validate(found)
        assert found["security"] == [{"token": []}]
    with TestClient(application_of(MemoryReader(), limits=Limits(introspection=False))) as client:
        answer = client.get("/openapi.json")
        assert (answer.status_code, answer.json()["code"]) == (403, "B8008")


def drive(application: Application, number: int, ends: tuple[str, ...] = ("",)) -> None:
    """Send what schemathesis makes of the document for addresses that end so, and let it judge the answers."""
    schema = schemathesis.openapi.from_dict(document_of(application))
    operations = [found.ok() for found in schema.get_all_operations()]
    operations = [o for o in operations if o.path.endswith(ends)]
    cases = [o.as_strategy(generation_mode=mode) for o in operations for mode in GenerationMode]
    statuses: Counter[int] = Counter()

    with TestClient(application) as client:

        @settings(max_examples=number, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=st.one_of(cases))
        def send(case: schemathesis.Case) -> None:
            answer = client.request(case.method, case.formatted_path, params=case.query, headers=case.headers)
            statuses[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        send()
    assert {200, 400} <= statuses.keys()
    assert max(statuses) < 500, statuses


def test_schemathesis_finds_nothing(reader: Any) -> None:
    drive(application_of(reader), examples(60))


@pytest.mark.nightly
def test_schemathesis_finds_nothing_in_many_requests(reader: Any) -> None:
    drive(application_of(reader), 5_000)
