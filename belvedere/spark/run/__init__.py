"""A run: sources looked at, epochs, rejected rows, views that are filled."""
