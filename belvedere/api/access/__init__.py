"""Authentication of callers, and their rights."""
