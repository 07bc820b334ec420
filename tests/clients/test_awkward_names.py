"""Clients of JavaScript over scripts whose names are reserved words of a language: rows, caches, generated types."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from belvedere.api.graphql.type_policies import type_policies
from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.api.serving.processes import start_api
from tests.api.node_clients import install
from tests.api.test_reserved_words import catalog_of, fill, parts
from tests.clients.test_clients import plain
from tests.depth import at_night

OF_OBJECTS = ("hasOwnProperty", "toString", "valueOf", "constructor", "prototype")
"""GraphQL Code Generator keeps types in plain objects, and ends at a type that is called as one of their members."""


@pytest.mark.node
@pytest.mark.nightly
@pytest.mark.parametrize("part", [0, 1, *at_night(range(2, 21))])
def test_every_word_is_a_name_for_clients(tmp_path: Path, part: int) -> None:
    words = [w for w in parts()[part] if w not in OF_OBJECTS]
    catalog, url = catalog_of(words), f"sqlite:///{tmp_path / 's.db'}"
    fill(url, catalog, words)
    model = model_of(catalog)
    entities = {e.name: e for e in model.entities.values()}
    own = {w: next(n for n, c in entities[w].columns.items() if c.name == w) for w in words}
    fields = [
        f"v{n}: {entities[w].field}(filter: {{{own[w]}: {{gte: $v{n}}}}}) {{ {own[w]} other }}"
        for n, w in enumerate(words)
    ]
    given = ", ".join(f"$v{n}: Int" for n in range(len(words)))
    asked: dict[str, Any] = {
        "query": f"query All({given}) {{ {' '.join(fields)} }}",
        "variables": {f"v{n}": 6 for n in range(len(words))},
        "policies": type_policies(model, schema_of(model, Limits())),
        "tables": [(entities[w].field, own[w]) for w in words],
    }
    folder = install(Path(__file__).parent / "node")
    api = start_api(catalog, url, 0, processes=1)
    try:
        api.wait_until_listening()
        run = subprocess.run(
            ["node", str(folder / "names.mjs")],
            input=json.dumps(asked | {"url": api.url}),
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    finally:
        api.close()
    assert run.returncode == 0, run.stderr
    reported = dict(json.loads(line) for line in run.stdout.splitlines())
    right = {f"v{n}": [{own[w]: 6, "other": 2}, {own[w]: 7, "other": 3}] for n, w in enumerate(words)}
    for client in ("apollo", "urql"):
        assert plain(reported[client]) == right, client
    assert reported["postgrest"] == {entities[w].field: [{own[w]: 7}, {own[w]: 6}] for w in words}
    assert reported["codegen"] == []
