"""Where a row comes from: plans read backwards (why-provenance; Cui and Widom, "Tracing the lineage of view data", 2000).

In: a catalog, a stored row's key. Out: the rows of each relation that the row was made of, computed when asked and stored nowhere.
"""
