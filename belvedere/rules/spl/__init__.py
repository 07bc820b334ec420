"""How aggregates over SPL windows are maintained."""
