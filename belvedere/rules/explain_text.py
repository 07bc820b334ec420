"""How one view is kept, as lines for people.

In: an explanation and, where a store was measured, sizes. Out: text. Prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from belvedere.rules.explain import ViewExplanation


def explanation_text(explanation: ViewExplanation, sizes: Mapping[str, tuple[int, int]] | None = None) -> str:
    """One view's explanation for people."""
    sizes = sizes or {}
    key = ", ".join(explanation.key) or "none: it has one row"
    lines = [explanation.name, f"  key    {key}"]
    for stage in explanation.stages:
        source = f" from {', '.join(dict.fromkeys(stage.reads))}" if stage.reads else ""
        name = "" if stage.output == explanation.name else f"{stage.output}: "
        lines.append(f"  kept   {name}{stage.rule}{source}: {stage.reason}")
    for entry in explanation.state:
        size = "; {} rows, {:,} bytes now".format(*sizes[entry.relation]) if entry.relation in sizes else ""
        paths = f"; found by ({'), ('.join(entry.paths)})" if entry.paths else ""
        lines.append(f"  state  {entry.relation}: {entry.bound}{paths}{size}")
    lines.append(f"  read   {explanation.reads}")
    return "\n".join(lines)
