"""Conditions: contrasts of levels within bases, equivalence, omnibus test; length of the reply."""
