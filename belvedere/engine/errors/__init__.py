"""Failed stages: quarantine and recovery."""
