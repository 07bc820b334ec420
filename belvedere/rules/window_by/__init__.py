"""Maintenance of WINDOW BY."""
