"""Belvedere on Spark: sessions, queries, runs."""
