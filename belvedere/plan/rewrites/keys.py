"""Rewrite: every node carries its key.

A projection that dropped key columns gets them back as hidden columns, and a union gets a hidden branch number. So
every row of every relation has an identity that survives updates (SQRL: 'a join's key follows from its sides; else
`_uid`'). In: a tree whose scans have keys. Out: an equivalent tree (same visible columns) whose `schema.key` is not
None.
"""

from __future__ import annotations

from belvedere.plan.operators.node import Node


def carry_keys(node: Node) -> Node:
    """Return the same relation with its key among its columns (hidden if the script does not show it)."""
    return node.with_key_columns()
