"""Comparisons: models, focus sentences, cost and quality, missing data, ceilings."""
