"""Decisions compared with labels: rates, agreement beyond chance, prevalence."""
