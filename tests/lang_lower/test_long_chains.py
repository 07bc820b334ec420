"""Long chains of views that read the previous view twice: properties of a relation are computed once."""

from __future__ import annotations

import pytest

from belvedere.compiler import compile_script

FIRST = """
CREATE TABLE T (id INT PRIMARY KEY, k INT, at TIMESTAMP, WATERMARK FOR at AS at);
CREATE STREAM S (id INT, at TIMESTAMP);
V0 := SELECT id, at FROM T;
"""
LENGTH = 40
NEXT = {
    "join": "SELECT a.id, a.at FROM V{0} a JOIN V{0} b ON a.id = b.id AND a.at = b.at",
    "outer join": "SELECT a.id, a.at FROM V{0} a LEFT JOIN V{0} b ON a.id = b.id AND b.at <= a.at",
    "groups": "SELECT a.id, max(b.at) AS at FROM V{0} a JOIN V{0} b ON a.id = b.id GROUP BY a.id",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("query", NEXT.values(), ids=NEXT)
def test_each_view_is_judged_once(query: str) -> None:
    """With a judgement for each reader forty views would take 2**40 of them."""
    views = "".join(f"V{n + 1} := {query.format(n)};\n" for n in range(LENGTH))
    last = f"V{LENGTH}"
    tail = (
        f"Joined := SELECT v.id, s.at FROM {last} v JOIN S s ON v.id = s.id;\nNew := SUBSCRIBE ON ADD SELECT * "
        f"FROM {last};\n"
    )
    compiled = compile_script(FIRST + views + tail)
    assert compiled.ok
    assert {d.code for d in compiled.diagnostics} <= {"B6120", "B5033"}
