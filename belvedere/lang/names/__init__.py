"""Name resolution: the definitions of a script, and the names inside a query."""
