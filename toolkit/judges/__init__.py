"""Rubrics, the request a judge is sent, its reply read strictly, and the ensemble."""
