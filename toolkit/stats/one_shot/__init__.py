"""The one-shot test: scores of methods, and methods compared."""
