"""Warnings and notices about a script, one kind per module."""
