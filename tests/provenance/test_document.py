"""What of the rows of a sample goes into a document."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from rich.tree import Tree

from belvedere.compiler import compile_script
from belvedere.provenance.document import rows_of
from belvedere.provenance.findings import FoundRows
from belvedere.provenance.plan_queries import QueryRunner
from belvedere.provenance.trees import add_read
from belvedere.provenance.why.since import since

ROW = {"T.k": 1, "T._größe": 2, "T._größe + T.k > 2": True, "T.k_2": 3, "U._x": None}


def served(id_: str, row: Any) -> Any:
    """The API has no private columns, and no relation `P`."""
    return None if id_ == "P" else {n: v for n, v in row.items() if not n.startswith("_")}


def whole(id_: str, row: Any) -> Any:
    return {n: v for n, v in row.items() if (id_, n) in {("T", "_größe"), ("T", "k"), ("U", "_x")}}


def test_private_columns_between_operators_are_for_who_sees_them() -> None:
    read = FoundRows("", "reached it", 1, (ROW,), between=("T", "U"))
    assert rows_of(read, whole) == [ROW]
    assert rows_of(read, served) == [{"T.k": 1, "T.k_2": 3}]
    assert rows_of(FoundRows("", "reached it", 1, (ROW,), between=("T", "P")), served) == []


def test_a_sample_without_an_order_names_none() -> None:
    catalog = compile_script("CREATE TABLE T (k INT, PRIMARY KEY (k));").catalog
    for order, last in (
        (("k",), "... 1,233 more, in the order of k"),
        (("_uid",), "... 1,233 more, in the order of their arrival"),
        ((), "... 1,233 more"),
    ):
        tree = Tree("")
        add_read(catalog, tree, FoundRows("T", "", 1234, ({"k": 1},), order=order), "")
        assert [c.label for c in tree.children[0].children] == ["k = 1", last]


def test_since_when_an_event_of_a_subscription_is_there_is_not_told() -> None:
    catalog = compile_script(
        "CREATE TABLE T (k INT, PRIMARY KEY (k));\nCREATE SUBSCRIPTION New ON ADD AS SELECT k FROM T;"
    ).catalog
    found = since(QueryRunner(catalog, {}, Mock()), "New", {"k": 1}, ())
    assert found.changed is None
    assert found.unknown == ("when it appeared: `New` is a subscription, whose events are not traced back",)
