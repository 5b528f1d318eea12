"""The thesis bundle: figures, tables, a methods paragraph and its references in one folder that compiles as it is."""
