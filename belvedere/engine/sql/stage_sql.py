"""Prints a stage's plans as Spark SQL over its temporary views.

In: the relations that a stage reads and writes. Out: texts that stay the same from epoch to epoch, since rows and the
clock come through views. A rule defines the texts and their names in `Stage.texts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from belvedere.engine.relation import Relation, Slot
from belvedere.engine.sql.plan_sql import render
from belvedere.engine.sql.row_identity import identity_columns, path_hash
from belvedere.engine.sql.staged_operators import Apart, split_windows
from belvedere.functions.spark_types import quote
from belvedere.plan.operators.nodes import Node, Scan
from belvedere.plan.rewrites.rewrite import with_column
from belvedere.schema import KEY, WEIGHT, Column
from belvedere.store.stage_memory import StageMemory

DELTA, ROWS = "delta", "rows"
"""The kinds of view that feed a slot: the change of its relation, or rows of it."""
WEIGHT_COLUMN = Column(WEIGHT, pa.int64(), nullable=False, hidden=True)
KEY_COLUMN = Column(KEY, pa.string(), nullable=False, hidden=True)
WEIGHTED = f", `{WEIGHT}`"


def view_name(number: int, slot: str, kind: str) -> str:
    """Return the name of a stage's temporary view: by stage, slot and kind."""
    return f"{number}_{slot}_{kind}"


@dataclass
class Texts:
    """Context for the texts of one stage; `qualify` returns a temporary view's full name."""

    number: int
    output: Relation
    slots: tuple[Slot, ...]
    relations: Mapping[str, Relation]
    qualify: Callable[[str], str]
    windows: list[Apart] = field(default_factory=list)
    """The non-SQL operators in the plans printed so far. Their rows must be views before the SQL is run."""

    @property
    def names(self) -> frozenset[str]:
        """Return the scans that the slots feed."""
        return frozenset(s.name for s in self.slots)

    def view(self, scan: str, kind: str) -> str:
        """Return the full name of a view."""
        return self.qualify(view_name(self.number, scan, kind))

    def query(self, plan: Node, kinds: Mapping[str, str] | str) -> str:
        """Return a plan over views of these kinds: by scan, or one kind for all."""

        def view_of(scan: str) -> str:
            return self.view(scan, kinds if isinstance(kinds, str) else kinds[scan])

        return render(plan, view_of, self.qualify("clock"))

    def rows(self, plan: Node, kinds: Mapping[str, str] | str, extra: str = "") -> str:
        """Return a query for rows of the output, with their `_key` and hashes, followed by the `extra` columns."""
        return self.identified(self.output, self.query(plan, kinds), extra)

    def identified(self, relation: Relation, query: str, extra: str = "") -> str:
        """Return the rows of a query as those of a relation, with their `_key` and hashes."""
        columns = ", ".join(quote(n) for n in relation.schema.names)
        return f"SELECT {columns}, {identity_columns(relation)}{extra} FROM ({query}) AS o"

    def all_rows(self, plan: Node) -> str:
        """Return a plan over all rows of its slots.

        Rows of WINDOW BY and recursions in it come through views of their own.
        """
        plan, windows = split_windows(plan, lambda scan: self.view(scan, ROWS), self.qualify("clock"))
        self.windows += windows
        return self.rows(plan, ROWS)

    def weighted(self, plan: Node) -> Node:
        """Return a plan whose rows have the weights of the changes from which they are computed."""
        return with_column(plan, WEIGHT_COLUMN, self.names)

    def changes(self, plan: Node) -> str:
        """Return a linear plan over changes, with weights."""
        return self.rows(self.weighted(plan), DELTA, WEIGHTED)

    def changes_of_scan(self, name: str) -> str:
        """Return the changes of a scan as weighted rows of the output."""
        scan = with_column(Scan(name, self.output.schema), WEIGHT_COLUMN, frozenset({name}))
        return self.rows(scan, DELTA, WEIGHTED)

    def groups(self, changed: Node, path: str, kinds: Mapping[str, str] | str = DELTA) -> str:
        """Return the hashes, by an access path of the output, of the groups that changes affect."""
        found = self.output.path(path)
        return (
            f"SELECT DISTINCT {path_hash(found.exprs, found.types)} AS `{found.name}` FROM "
            f"({self.query(changed, kinds)}) AS c"
        )


@dataclass(frozen=True)
class PreparedStage:
    """Prepared form of a stage for all epochs: its SQL by name, the relations that it reads and writes."""

    number: int
    output: Relation
    owner: str
    """Id of the view to which the stage belongs."""
    sql: Mapping[str, str]
    slots: tuple[tuple[Slot, Relation], ...]
    states: Mapping[str, Relation]
    windows: tuple[Apart, ...] = ()
    moved: Mapping[str, str] | None = None
    """Source columns of a stage that only selects and renames columns, if Arrow alone can compute its rows."""
    memory: type[StageMemory] = StageMemory
    is_fused: bool = False
    """Whether its change is computed within the query of its only reader."""
