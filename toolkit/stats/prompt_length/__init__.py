"""Prompt length: contrasts within bases, equivalence, omnibus tests, reply length, the mixed model."""
