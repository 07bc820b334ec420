"""Programs of the project that are not part of the package."""
