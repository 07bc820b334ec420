"""Rules of session windows."""
