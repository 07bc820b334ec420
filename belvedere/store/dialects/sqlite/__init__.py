"""Stores in SQLite. `sqlite` is the dialect."""
