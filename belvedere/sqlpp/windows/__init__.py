"""Search for windows: the classes of START and END, and the plan for the kernels."""
