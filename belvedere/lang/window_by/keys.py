"""The keys of PARTITION BY as columns of the relation that WINDOW BY reads: then its windows are kept partition by partition.

In: the clause and the relation. Out: the relation, with a hidden column more for each key that is no column of it, and the columns of
the keys. Where the relational plan cannot say a key with the same groups (GROUP BY equality: MISSING and NULL are two), that key is left
out, with the reason: rows that differ in one of the others share no window either.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from belvedere.lang.window_by.relational import Meanings, Said, Unsaid, in_words, is_exact, said
from belvedere.lang.window_by.tree import Expr
from belvedere.plan.keys import item_of, unused_name
from belvedere.plan.nodes import Item, Node, Project


@dataclass(frozen=True)
class PartitionKeys:
    """`columns` of `node` hold the keys, `words` say these; `unsaid` is why one of the keys is not among them."""

    node: Node | None = None
    columns: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    unsaid: str = ""


def keys_of(keys: tuple[Expr, ...], variables: Meanings, node: Node) -> PartitionKeys:
    """The keys over a relation, by what the variables are by its columns."""
    columns, words, unsaid = [], [], ""
    added: list[Item] = []
    for key in keys:
        try:
            found = said(key, variables)
            name = found.expr.name if isinstance(found.expr, exp.Column) else ""
            if not name:
                found = _comparable(found, key)
        except Unsaid as reason:
            unsaid = unsaid or f"PARTITION BY {in_words(key)} is no column and cannot be made one: {reason}"
            continue
        words.append(name or in_words(key))
        if not name:
            name = unused_name(f"_by{len(added)}", {*node.schema.names, *(i.name for i in added)})
            added.append(Item(name, found.expr, found.type, hidden=True))
        columns.append(name)
    if added:
        node = Project(node, (*(item_of(c) for c in node.schema), *added))
    return PartitionKeys(node, tuple(columns), tuple(words), unsaid)


def _comparable(found: Said, key: Expr) -> Said:
    if not is_exact(found.type):
        raise Unsaid(f"{in_words(key)} is a fraction, or an array or object")
    return found
