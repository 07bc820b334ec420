"""State: the relations that operators look up, stored as sorted immutable runs of rows in files.

It uses neither Spark nor a database.

The engine opens a `State` (`belvedere.state.state`); an `Arrangement` is one relation in it.
"""
