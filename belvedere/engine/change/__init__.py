"""Effect of changed scripts and sources on a store."""
