"""Provenance answers as trees, for a terminal or as text.

In: a `Why` or a `WhyNot`. Out: trees, their text. `belvedere.provenance.document` has the form for programs.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.tree import Tree

from belvedere.catalog.catalog import Catalog
from belvedere.catalog.shown_names import shown_names
from belvedere.errors import counted
from belvedere.provenance.document import relation_name, rows_of, visible
from belvedere.provenance.findings import FoundRows, Since, Why, WhyNot, since_text
from belvedere.schema import UID

ENDLESS = 10_000
"""Width in columns of a line that is never wrapped."""


def why_tree(answer: Why) -> Tree:
    """Return the tree of a row's input rows."""
    catalog = answer.catalog
    title = f"{shown_names(answer.view)}  {row_text(visible(catalog, answer.view, answer.row))}"
    tree = Tree(title if answer.epoch is None else f"{title}   (epoch {answer.epoch})")
    if answer.since is not None:
        add_since(catalog, tree, answer.view, answer.since)
    for part, name in ((answer.reads, ""), (answer.dropped, "not counted: "), (answer.late, "late: ")):
        for read in part:
            add_read(catalog, tree, read, name)
    if answer.inputs and answer.sql:
        below = tree.add("in all, of the inputs")
        for read in answer.inputs:
            below.add(f"{catalog.name_of(read.relation)}: {read.untold or counted(read.count, 'row')}")
    return tree


def why_not_tree(answer: WhyNot) -> Tree:
    """Return the tree of the operators that drop a missing row."""
    name = shown_names(answer.view)
    epoch = "" if answer.epoch is None else f"   (epoch {answer.epoch})"
    if answer.there:
        there = f"{counted(answer.there, 'row')} with {answer.condition}{epoch}"
        return Tree(f"{name} has {there}; `belvedere why` explains where it comes from")
    tree = Tree(f"{name} has no row with {answer.condition}{epoch}")
    for lost in answer.lost:
        place = " > ".join(dict.fromkeys(relation_name(answer.catalog, i) for i in (*lost.through, lost.view)))
        branch = tree.add(f"{place}: {lost.words}")
        for step in lost.steps:
            branch.add(f"on the way: {step}")
        for read in lost.near:
            add_read(answer.catalog, branch, read, "")
        for test in lost.unfollowed:
            branch.add(f"not followed: {test}")
    return tree


def add_since(catalog: Catalog, tree: Tree, view: str, found: Since) -> None:
    """Add the age of a row to a tree."""
    words = since_text(found)
    branch = tree.add(words or "when it appeared is not known")
    for read in found.made_by:
        add_read(catalog, branch, read, "")
    for version in found.versions:
        until = "" if version.until is None else f" until {version.until}"
        below = branch.add(f"since {version.since}{until}: {row_text(visible(catalog, view, version.row))}")
        for read in version.made_by:
            add_read(catalog, below, read, "")
    if found.count > len(found.versions):
        branch.add(f"... {found.count - len(found.versions):,} earlier")
    for one in found.unknown:
        branch.add(f"not known: {one}")


def print_tree(tree: Tree) -> None:
    """Print a tree. Values are not interpreted as markup. Lines are cut only at the width of a terminal."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = ENDLESS
    console.print(tree)


def tree_text(tree: Tree) -> str:
    """Return a tree as lines, none of them cut."""
    text = io.StringIO()
    Console(file=text, width=ENDLESS, highlight=False, markup=False, emoji=False, color_system=None).print(tree)
    return text.getvalue().rstrip("\n")


def add_read(catalog: Catalog, tree: Tree, read: FoundRows, name: str) -> None:
    """Add rows of a relation to a tree."""
    words = f", {read.words}" if read.words else ""
    title = f"{name}{relation_name(catalog, read.relation)}"
    branch = tree.add(
        f"{title}{words}: {read.untold}" if read.untold else f"{title}: {counted(read.count, 'row')}{words}"
    )
    followed = dict(enumerate(read.below))
    for number, row in enumerate(rows_of(read, partial(visible, catalog))):
        if number in followed and followed[number].sql:
            branch.add(why_tree(followed[number]))
        else:
            branch.add(row_text(row))
    if read.count > len(read.rows) and read.rows:
        order = f", in the order of {', '.join(order_names(read.order))}" if read.order else ""
        branch.add(f"... {read.count - len(read.rows):,} more{order}")


def order_names(order: Sequence[str]) -> list[str]:
    """Return readable names of order columns: `_uid` is the order of arrival."""
    return ["their arrival" if name == UID else name for name in order]


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row as one line."""
    return ", ".join(f"{n} = {'NULL' if v is None else v}" for n, v in row.items())


def why_text(answer: Why) -> str:
    """Return a row's input rows as text."""
    return tree_text(why_tree(answer))


def why_not_text(answer: WhyNot) -> str:
    """Return the operators that drop a missing row as text."""
    return tree_text(why_not_tree(answer))
