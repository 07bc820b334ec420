"""Scans of relations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from belvedere.plan.bound_rules import Bounds, Known
from belvedere.plan.cached_values import cached_property
from belvedere.plan.monotone import FOREVER
from belvedere.plan.operators.node import Node
from belvedere.schema import Schema


@dataclass(frozen=True)
class Scan(Node):
    """A relation of the catalog, by its id: an input or an earlier view. It has all its columns, including
    hidden ones."""

    relation: str
    relation_schema: Schema

    @cached_property
    def schema(self) -> Schema:
        return self.relation_schema

    @property
    def text(self) -> str:
        return f"scan {self.relation}"

    def pruned(self, requested: frozenset[str]) -> Node:
        return self

    def forgiving(self, views: Mapping[str, Schema], expressions: bool) -> Node:
        return replace(self, relation_schema=views.get(self.relation, self.relation_schema))

    def ways(self, known: Known) -> tuple[Bounds, ...]:
        given = known(self.relation)
        if given is None:
            return (dict.fromkeys(self.schema.names, FOREVER),)
        return ({c: b for c, b in given.items() if c in self.schema.names},)
