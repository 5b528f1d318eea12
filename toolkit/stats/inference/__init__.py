"""Means, proportions, slopes and their intervals: the parts that every analysis is made of."""
