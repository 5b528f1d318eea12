"""Runs the command line as ``python -m toolkit``."""

from toolkit.cli import main

main()
