"""Text of statements and queries: `belvedere fmt`, and queries for display."""
