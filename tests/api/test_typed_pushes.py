"""Bodies of pushes whose rows fit are read by Arrow: the rows and refusals are those of reading row by row."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from belvedere.api.failures import RequestError
from belvedere.api.http import push_bodies
from belvedere.compiler import compile_script
from belvedere.functions.spark_types import quote, type_text
from belvedere.intake.request_rows import Pushed
from tests.connectors.random_texts import COLUMNS, NESTED, damaged, json_text
from tests.depth import at_night

WIDE = ("d38", "f32", "raw", "local")
"""Columns of types that are read row by row, whatever comes."""
SCRIPT = """
CREATE STREAM Plain ({plain});
CREATE STREAM Wide ({wide});
CREATE TABLE Keyed (id BIGINT NOT NULL, name STRING, CONSTRAINT small CHECK (id < 5000), PRIMARY KEY (id));
"""


def _declared(columns: Any) -> str:
    return ", ".join(f"{quote(c.name)} {type_text(c.type)}{'' if c.nullable else ' NOT NULL'}" for c in columns)


EVERY = (*COLUMNS, *NESTED)
FITTING = tuple(c for c in EVERY if c.name not in WIDE)


@pytest.fixture(scope="module")
def inputs() -> Any:
    catalog = compile_script(SCRIPT.format(plain=_declared(FITTING), wide=_declared(EVERY)), path=None).catalog
    return {table.name: table for table in catalog.inputs.values() if table.late_of is None}


def answer(table: Any, body: bytes, media: str, most: int = 10_000) -> Any:
    try:
        found = push_bodies.rows_of(table, body, media, most, {})
    except RequestError as error:
        return str(error), error.status
    except Exception as error:
        return repr(error)
    times = [f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in found.rows.schema]
    return (
        [repr(r) for r in found.rows.cast(pa.schema(times)).to_pylist()],
        list(found.places),
        found.malformed,
        found.codes,
    )


def both(monkeypatch: pytest.MonkeyPatch, table: Any, body: bytes, media: str) -> bool:
    """Whether Arrow took the body; what it says is what reading row by row says."""
    taken: list[Pushed | None] = []
    typed = push_bodies._typed

    def noted(*given: Any) -> Pushed | None:
        taken.append(typed(*given))
        return taken[0]

    with monkeypatch.context() as looked:
        looked.setattr(push_bodies, "MIN_TYPED_BYTES", 0)
        looked.setattr(push_bodies, "_typed", noted)
        found = answer(table, body, media)
    with monkeypatch.context() as slowly:
        slowly.setattr(push_bodies, "_typed", lambda *given: None)
        assert answer(table, body, media) == found
    return taken[0] is not None


@pytest.mark.parametrize("seed", [1, *at_night(range(2, 200))])
def test_random_bodies_are_read_alike(inputs: Any, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    r, took = Random(seed), 0
    for _ in range(60):
        name, columns = ("Wide", EVERY) if r.random() < 0.1 else ("Plain", FITTING)
        lines = json_text(
            r, r.choice([1, 3, 30]), r.choice([0, 0, 0.02, 0.2]), columns, other=r.choice([0, 0, 0.05])
        ).strip()
        is_array = r.random() < 0.6
        text = f"[{lines.replace(chr(10), r.choice([',', ', ', chr(10) + ',']))}]" if is_array else lines
        body = damaged(r, text) if r.random() < 0.3 else text.encode()
        took += both(monkeypatch, inputs[name], body, "application/json" if is_array else "application/x-ndjson")
    assert took > 5


@pytest.mark.parametrize(
    ("body", "takes"),
    [
        (b'[{"id": 1, "name": "x},{y"}, {"id": 2}]', True),
        (b'{"id": 1}\n{"id": 2, "name": null}', True),
        (b'[{"id": 1}, {"id": 6000}]', False),
        (b'[{"id": 1, "_delete": true}]', False),
        (b'[{"ID": 1}]', False),
        (b'[{"id": 1, "id": 2}]', False),
        (b'[{"id": 1}, null]', False),
        (b'[{"id": 1},]', False),
        (b'[{"id": 1}]}\n{"rows":[{"id":2}]', False),
        (b'[{"id": 1}],"rows":[]', False),
        (b"[]", False),
        (b'\xef\xbb\xbf[{"id": 1}]', False),
        (b'[{"id": 1, "name": "\\ud800"}]', False),
        (b'[{"id": 1, "name": "\\ud83d\\ude00"}]', True),
        (b"[" + b",".join(b'{"id": %d}' % n for n in range(4_000)) + b"]", True),
    ],
)
def test_chosen_bodies_are_read_alike(inputs: Any, monkeypatch: pytest.MonkeyPatch, body: bytes, takes: bool) -> None:
    assert both(monkeypatch, inputs["Keyed"], body, "application/json") == takes


@pytest.mark.parametrize("tail", [b"]", b",]", b"", b"],", b',{"id": 1, "name": "' + b"x" * 300 + b'"}]'])
def test_long_arrays_are_read_in_parts(inputs: Any, monkeypatch: pytest.MonkeyPatch, tail: bytes) -> None:
    monkeypatch.setattr(push_bodies, "MAX_ROW_LENGTH", 200)
    body = b"[" + b",".join(b'{"id": %d, "name": "},{"}' % n for n in range(50))
    assert both(monkeypatch, inputs["Keyed"], body + tail, "application/json") == (tail == b"]")
