"""The relational operators: frozen dataclasses. `nodes` has those of SQL."""
