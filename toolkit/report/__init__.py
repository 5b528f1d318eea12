"""Figures, tables and captions for the thesis: draws what ``toolkit.stats`` returns and computes nothing."""
