"""One query by itself, over files, frames or the relations of a store."""
