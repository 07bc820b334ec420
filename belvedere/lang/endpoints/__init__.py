"""What callers ask with: parameters, templates, orders, and what a role may see."""
