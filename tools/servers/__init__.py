"""Servers of one's own, which examples, tests and benches start: `kafka`, `postgres`."""
