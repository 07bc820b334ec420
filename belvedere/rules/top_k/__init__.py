"""Rules of top-k: the first rows overall or of each key."""
