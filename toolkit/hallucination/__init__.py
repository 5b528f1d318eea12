"""Hallucination in labelled answers (seed 004): votes of judges, their comparison, figures."""
