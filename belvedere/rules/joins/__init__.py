"""Rules of joins."""
