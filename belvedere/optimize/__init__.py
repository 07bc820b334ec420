"""Choice of which operators epochs maintain and which requests compute, and of indexes."""
