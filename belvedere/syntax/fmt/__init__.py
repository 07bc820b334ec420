"""Statements and queries back as text: `belvedere fmt`, and queries for people."""
