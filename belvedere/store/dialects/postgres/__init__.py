"""Stores in Postgres. `postgres` is the dialect."""
