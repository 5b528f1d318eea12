"""Decisions held against labels: rates, agreement beyond chance, prevalence."""
