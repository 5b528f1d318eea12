"""Comparisons: models, cost and quality, missing data, ceilings."""
