"""Project file keys of each connector, one module each.

They are separate from the connectors, so a check loads no client.
"""
