"""Single queries over files, frames or the relations of a store."""
