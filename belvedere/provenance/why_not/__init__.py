"""The reason that a row is missing: the operators that drop it."""
