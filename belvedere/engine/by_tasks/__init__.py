"""Large epochs: stored rows that tasks in other processes look up and change."""
