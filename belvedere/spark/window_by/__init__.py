"""Queries with WINDOW BY on Spark: `windows` finds the windows of one operator, `windows_query` answers a query."""
