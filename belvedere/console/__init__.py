"""The web console: static files, served at `/`. No code, and nothing from other hosts."""
