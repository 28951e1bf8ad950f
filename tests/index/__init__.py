"""Documents to passages to hits: readers, chunks, vectors, catalog, ingest and search."""
