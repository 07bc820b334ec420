"""Relationships and paths: named joins, and their use in queries."""
