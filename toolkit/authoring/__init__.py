"""Prompts written by a model from documents, and checked against them."""
