"""Judges held against people: calibrated means and agreement."""
