"""The Model Context Protocol: tools for agents over the same reads."""
