"""GraphQL: documents, the schema, and operations."""
