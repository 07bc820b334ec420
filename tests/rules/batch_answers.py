"""The headline promise as one assertion, and the runs that it is tested in."""

from __future__ import annotations

from collections.abc import Iterable

from belvedere import Workbench


def epochs(seed: int) -> int:
    """A run of `depth.STORES_AND_SEEDS` is short in `make test`: the first epoch, changes, and changes after a restart."""
    return 3 if seed == 1 else 6


def are_batch_answers(wb: Workbench, views: Iterable[str], epoch: int) -> None:
    """Each view holds just what its query answers in batch, to the last digit."""
    for view, rows in wb.batches(views).items():
        assert sorted(map(str, wb.rows(view))) == sorted(map(str, rows)), (view, epoch)
