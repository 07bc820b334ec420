"""The keys of each connector in the project file, a module each: apart from what reads and writes, so that a check loads no client."""
