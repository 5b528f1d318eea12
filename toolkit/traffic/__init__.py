"""Samples: capture traffic, read captures, write flow CSVs."""
