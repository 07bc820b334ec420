"""From the catalog to the pipeline: the maintenance of each view, the changes that a start would make, and
`explain`."""
