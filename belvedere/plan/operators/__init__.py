"""Relational operators: frozen dataclasses. `nodes` collects those of SQL."""
