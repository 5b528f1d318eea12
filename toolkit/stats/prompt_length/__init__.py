"""Prompt length: contrasts within bases, equivalence, omnibus test, reply length."""
