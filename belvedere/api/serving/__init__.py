"""The serving processes, and their access to the store."""
