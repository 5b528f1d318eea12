"""Decisions compared with labels: rates and agreement beyond chance."""
