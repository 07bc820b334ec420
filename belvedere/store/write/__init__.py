"""Writes of a store: its tables, its lease and epochs (`database`), and an epoch's changes (`transaction`)."""
