"""Relationships and paths: named joins, and where queries walk along them."""
