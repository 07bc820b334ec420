"""Change feeds against models of a database and of a broker."""
