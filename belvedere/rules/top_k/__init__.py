"""Rules of the first rows, of all or of each key."""
