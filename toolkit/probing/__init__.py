"""Judges probed: the same reply altered in a known way, and what that does to the score."""
