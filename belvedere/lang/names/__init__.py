"""What a name means: the definitions of a script, and the names inside a query."""
