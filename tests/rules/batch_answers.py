"""The headline promise as one assertion, and the runs that it is tested in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from belvedere import Workbench
from belvedere.store import file_of
from tests.restarts import assert_whole, restart


def epochs(seed: int) -> int:
    """A run of `depth.STORES_AND_SEEDS` is short in `make test`: the first epoch, changes, and changes after a
    restart."""
    return 3 if seed == 1 else 6


def are_batch_answers(wb: Workbench, views: Iterable[str], epoch: int) -> None:
    """Each view holds just what its query answers in batch, to the last digit."""
    for view, rows in wb.batches(views).items():
        assert sorted(map(str, wb.rows(view))) == sorted(map(str, rows)), (view, epoch)


def step_alike(
    benches: Sequence[Workbench],
    views: Collection[str],
    epochs: int,
    push: Callable[[int], Callable[[Workbench], None]],
    shown: Callable[[Any], str] = repr,
) -> None:
    """Step through `epochs` with what `push(epoch)` puts into each bench: all benches make equal changes and hold the
    batch answers.

    Each third epoch is followed by a restart, for which stores are renamed or restored from a backup by turns. `shown`
    is the text by which rows and changes are compared. The benches are closed.
    """
    for epoch in range(epochs):
        fill = push(epoch)
        for wb in benches:
            fill(wb)
            wb.step()
        changes = [{n: sorted(map(shown, wb.changes(n))) for n in views} for wb in benches]
        assert all(c == changes[0] for c in changes), epoch
        for name, batch in benches[0].batches(views).items():
            for wb in benches:
                assert sorted(map(shown, wb.rows(name))) == sorted(map(shown, batch)), (name, epoch)
        if epoch % 3 == 1:
            for number, wb in enumerate(benches):
                restart(wb, epoch + number)
    files = [f for wb in benches if (f := file_of(wb.store.url)) is not None]
    for wb in benches:
        wb.close()
    for file in files:
        assert_whole(file)
