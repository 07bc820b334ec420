"""Writes of a store: its tables, its lease and epochs (`database`), an epoch's changes (`transaction`)."""
