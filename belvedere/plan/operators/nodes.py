"""All operators of SQL, for import from one place; each has its own module."""

from __future__ import annotations

from belvedere.plan.expressions import Expr
from belvedere.plan.operators.aggregate import Aggregate
from belvedere.plan.operators.distinct import Distinct
from belvedere.plan.operators.filter import Filter
from belvedere.plan.operators.join import Join, JoinKind
from belvedere.plan.operators.node import Item, Node, Order, Part
from belvedere.plan.operators.project import Project
from belvedere.plan.operators.scan import Scan
from belvedere.plan.operators.set_operation import SetKind, SetOperation
from belvedere.plan.operators.top_k import TopK
from belvedere.plan.operators.union import Union
from belvedere.plan.operators.unnest import Unnest
from belvedere.plan.operators.values import Values
from belvedere.plan.operators.window import Window

__all__ = [
    "Aggregate",
    "Distinct",
    "Expr",
    "Filter",
    "Item",
    "Join",
    "JoinKind",
    "Node",
    "Order",
    "Part",
    "Project",
    "Scan",
    "SetKind",
    "SetOperation",
    "TopK",
    "Union",
    "Unnest",
    "Values",
    "Window",
]
