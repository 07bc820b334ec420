"""The language of WINDOW BY: SQL++ queries as syntax trees, their types, checks and classes, and what a view needs to know of them.

In: a query's text and the types of its tables. Out: a syntax tree (`tree`), diagnostics, and a plan around
`belvedere.plan.operators.predicate_window.PredicateWindow`.
Source: Fang, Lychagin, Carey, Tsotras, "WINDOW BY", VLDB Journal 33(3), 2024.
"""
