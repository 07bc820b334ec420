"""The error for a sink that has lost delivered events, which the store no longer has.

In: the sink, the target, its content. Out: the error that ends the run.
"""

from __future__ import annotations

from belvedere.errors import BelvedereError, fail


def lost_events(sink: str, target: str, said: str) -> BelvedereError:
    """Return B6212. `said` describes the events that the sink has, and those that it received."""
    hint = f"restore its table, or resend all events: belvedere resend SCRIPT {sink}.{target}"
    return fail("B6212", f'sink "{sink}" has lost events of "{target}": {said}', hint=hint)
