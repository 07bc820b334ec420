"""The project file `belvedere.toml`: its sections, rules for their values, profiles."""
