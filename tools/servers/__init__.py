"""Local servers for examples, tests and benches: `kafka`, `postgres`."""
