"""WINDOW BY kept up to date."""
