"""Maintenance of aggregates over SPL windows."""
