"""Parts of requests: parameters, templates, orders, and the restrictions of roles."""
