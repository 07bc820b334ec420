"""The headline promise as one assertion."""

from __future__ import annotations

from collections.abc import Iterable

from belvedere import Workbench


def are_batch_answers(wb: Workbench, views: Iterable[str], epoch: int) -> None:
    """Each view holds just what its query answers in batch, to the last digit."""
    for view in views:
        assert sorted(map(str, wb.rows(view))) == sorted(map(str, wb.batch(view))), (view, epoch)
