"""Rows of COPY: what Arrow reads is what the bytes say, and the other blocks are rows of bytes."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from belvedere.connectors.postgres import copy_rows
from belvedere.connectors.postgres.copy_rows import copied_blocks, rows_of_block

ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
VALUES = [
    None,
    "",
    "a",
    '"',
    "'",
    ",",
    "NULL",
    "N",
    r"\N",
    "\\",
    "\ufeff",
    "é",
    "\u2028",
    "x" * 300,
    " ",
    "\n",
    "\t",
    "\r",
    '""',
    "#",
]


def written(values: list[str | None]) -> bytes:
    """A row as Postgres writes it."""
    return ("\t".join(r"\N" if v is None else "".join(ESCAPES.get(c, c) for c in v) for v in values) + "\n").encode()


@pytest.mark.parametrize("seed", range(20))
def test_random_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(seed)
    monkeypatch.setattr(copy_rows, "BLOCK_BYTES", chosen.choice([1, 50, 1_000, 1 << 20]))
    width, values = (
        chosen.randint(1, 4),
        VALUES if seed % 2 else [v for v in VALUES if v is None or not {*v} & {*ESCAPES}],
    )
    rows = [[chosen.choice(values) for _ in range(width)] for _ in range(100)]
    text = b"".join(map(written, rows))
    cuts = sorted(chosen.sample(range(len(text)), 20))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    blocks = list(copied_blocks(pieces, [f"c{n}" for n in range(width)]))
    found = [row for block in blocks for row in rows_of_block(block)]
    assert found == [tuple(None if v is None else v.encode() for v in row) for row in rows]
    if not seed % 2:
        assert any(isinstance(b, pa.Table) for b in blocks)


def test_bytes_that_are_no_text() -> None:
    (block,) = copied_blocks([b"1\ta\xff\n2\t\\N\n"], ["a", "b"])
    assert rows_of_block(block) == [(b"1", b"a\xff"), (b"2", None)]
    assert list(copied_blocks([], ["a"])) == []
