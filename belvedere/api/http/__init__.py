"""The HTTP side: routes, bodies, pushes, metrics and the console's files."""
