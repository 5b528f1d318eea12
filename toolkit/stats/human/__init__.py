"""Judges held against people: calibrated means, the alternative annotator test, ratings still needed."""
