"""Adaptive benchmarking: what a part of a bank says of the whole of it, and what choosing that part is worth."""
