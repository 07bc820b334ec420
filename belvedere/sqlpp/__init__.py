"""The language of WINDOW BY: SQL++ queries as syntax trees, with their types, checks and window classes.

In: a query's text and the types of its tables. Out: a syntax tree (`query_tree`), diagnostics, and a plan around
`belvedere.plan.operators.predicate_window.PredicateWindow`.

Source: Fang, Lychagin, Carey, Tsotras, "WINDOW BY", VLDB Journal 33(3), 2024.
"""
