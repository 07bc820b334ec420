"""The operators whose rows depend on history: on which rows came in which epoch, beside what is there in the end."""

from __future__ import annotations

from belvedere.plan.operators.spl_aggregate import SplAggregate
from belvedere.plan.operators.spl_join import SplJoin
from belvedere.plan.operators.time_nodes import Emit, InOrder, Observed

HISTORIC = (Emit, InOrder, Observed, SplAggregate, SplJoin)
