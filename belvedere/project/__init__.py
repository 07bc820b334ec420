"""The project file `belvedere.toml`: its sections, what their values must be, profiles."""
