"""Aggregates as accumulators."""
