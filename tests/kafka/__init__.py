"""The connector `kafka`, with a real broker."""
