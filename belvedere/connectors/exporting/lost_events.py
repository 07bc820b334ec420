"""A sink that has lost events that it was sent: the store has only what comes after them.

In: the sink, the target, what is there. Out: the error that ends the run.
"""

from __future__ import annotations

from belvedere.errors import BelvedereError, fail


def lost_events(sink: str, target: str, said: str) -> BelvedereError:
    """B6212; `said`: what it has, and was sent."""
    hint = f"restore its table, or resend all events: belvedere resend SCRIPT {sink}.{target}"
    return fail("B6212", f'sink "{sink}" has lost events of "{target}": {said}', hint=hint)
