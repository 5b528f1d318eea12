"""The groups of the command line, one module each; `toolkit.cli` puts them together."""
