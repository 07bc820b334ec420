"""Text -> trees: splits a script into statements and parses each, with positions. No names are resolved here."""
