"""Views without an endpoint: private ones behind relationships and templates, and those that say `no_query`."""

from __future__ import annotations

from typing import Any

import pytest

from belvedere.api.reads.entities import model_of
from belvedere.compiler import compile_script
from belvedere.workbench.workbench import Workbench

SCRIPT = """
CREATE TABLE T (id INT, name STRING, PRIMARY KEY (id));
CREATE STREAM _Log (id INT, t INT);
_Last := DISTINCT _Log ON t ORDER BY id DESC;
_Unread := SELECT id FROM T;
_Counts := SELECT t, count(*) AS n FROM _Log GROUP BY t;
/*+ no_query */
Names := SELECT name, count(*) AS n FROM T GROUP BY name;
T.last := JOIN _Last l ON l.t = _.id;
T._unread := JOIN _Unread u ON u.id = _.id;
T.log := JOIN _Log l ON l.t = _.id;
T.names := JOIN Names n ON n.name = _.name;
Q(least INT) := SELECT t, n FROM _Counts WHERE n >= :least;
"""


def test_what_has_an_endpoint() -> None:
    compiled = compile_script(SCRIPT)
    assert compiled.ok
    assert [(d.code, d.message) for d in compiled.diagnostics] == [
        ("B8023", "the API does not show `T.log`: `_Log` is not stored")
    ]
    model = model_of(compiled.catalog)
    assert {e.name: e.field for e in model.entities.values()} == {"T": "t", "_Last": "", "_Counts": "", "Names": ""}
    assert set(model.entities["T"].relations) == {"last", "names"}
    assert set(model.templates) == {"q"}
    assert not model.omitted


def test_unknown_hints_are_told() -> None:
    found = compile_script("/*+ cache(a, b), no_query */\nCREATE TABLE T (a INT);").diagnostics
    assert [(d.code, d.message) for d in found if d.code == "B4033"] == [
        ("B4033", "the hint `cache` has no effect on `T`, because each answer is of the last epoch")
    ]


@pytest.mark.parametrize("hint", ["primary_key(a)", "index(a)", "partition_key(a)", "ttl(1 d)", "engine(x)", "test"])
def test_hints_without_effect_say_why(hint: str) -> None:
    found = compile_script(f"CREATE TABLE T (a INT);\n/*+ {hint} */\nV := SELECT a FROM T;").diagnostics
    (notice,) = [d for d in found if d.code == "B4033"]
    assert notice.message.startswith(f"the hint `{hint.partition('(')[0]}` has no effect on `V`, because ")
    assert notice.hint is not None


def test_they_are_served_through_what_reads_them(executor: Any) -> None:
    wb = Workbench(SCRIPT, spark=executor)
    wb.insert("T", [{"id": 1, "name": "a"}, {"id": 2, "name": "a"}])
    wb.insert("_Log", [{"id": 1, "t": 1}, {"id": 2, "t": 1}, {"id": 3, "t": 2}])
    wb.step()
    answer = wb.graphql("{ t { id last { id } names { n } } q(least: 2) { t n } }")
    assert answer["data"] == {
        "t": [{"id": 1, "last": {"id": 2}, "names": {"n": 2}}, {"id": 2, "last": {"id": 3}, "names": {"n": 2}}],
        "q": [{"t": 1, "n": 2}],
    }
    assert wb.graphql("{ names { n } }")["errors"]
    wb.close()
