"""A run: its sources, epochs, rejected rows, and the filling of views."""
