"""A script's text as statements, and back: cut, parsed with places, checked by its form, laid out and printed."""
