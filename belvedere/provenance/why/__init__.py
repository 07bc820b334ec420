"""The reason that a row exists: plans traced backwards."""
