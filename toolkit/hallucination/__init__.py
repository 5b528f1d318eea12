"""Hallucination judges compared on labelled answers."""
