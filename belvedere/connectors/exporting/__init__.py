"""Exports on their way to sinks, whatever the connector."""
