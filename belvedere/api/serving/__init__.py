"""The processes that serve, and what they need of the store."""
