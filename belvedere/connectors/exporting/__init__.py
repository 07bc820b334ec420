"""Delivery of exports to sinks of any connector."""
