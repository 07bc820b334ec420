"""Ends of a run without a diagnostic of a stage: Spark's process ended, a cluster stopped it, an unexpected error.

In: the error, Spark's last output. Out: diagnostics. `Runner` decides which case applies.
"""

from __future__ import annotations

from belvedere.errors import BelvedereError, fail


def spark_ended(last_words: str | None) -> BelvedereError:
    """Return the diagnostic B7022: Spark's process has ended."""
    hint = (
        'the store is at its last good epoch; if memory ran out, write `memory = "8g"` under [spark] in belvedere.toml'
    )
    return fail("B7022", "Spark's process ended", hint=hint, detail=last_words)


def cluster_ended(error: Exception) -> BelvedereError:
    """Return the diagnostic B7035: the cluster has ended the application."""
    hint = "see the master's log; the store is at its last good epoch"
    return fail("B7035", "the Spark cluster has ended the application", hint=hint, detail=str(error)[:200])


def unexpected_end(error: Exception) -> BelvedereError:
    """Return the diagnostic B7021: an error without a diagnostic of its own."""
    first = (str(error).strip().splitlines() or [""])[0]
    return fail(
        "B7021",
        "the run ended with an unexpected error",
        detail=f"{type(error).__name__}: {first}",
        hint="set BELVEDERE_TRACEBACK=1 to see where; the store is at its last good epoch",
    )
