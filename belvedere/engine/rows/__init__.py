"""Rows of an epoch wherever they are."""
