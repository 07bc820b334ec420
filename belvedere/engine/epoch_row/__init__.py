"""What the row of an epoch says beside its number: each a document, made by the epoch and read by whoever comes next."""
