"""Text -> trees: a script cut into statements, each parsed with places. No names are resolved here."""
