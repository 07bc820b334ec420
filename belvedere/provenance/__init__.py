"""Origin of rows: plans traced backwards (why-provenance; Cui and Widom, "Tracing the lineage of view data", 2000).

In: a catalog, a stored row's key. Out: the rows of each relation from which the row was computed. They are computed on
request and stored nowhere.
"""
