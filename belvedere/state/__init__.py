"""State: the relations that operators look up, as sorted immutable runs of rows in files. No Spark, no database.

`State` (`belvedere.state.state`) is what the engine opens; an `Arrangement` is one relation in it.
"""
