"""The text of a small study by scripted models: of six runs, or without its one scenario of thirty-six."""

from __future__ import annotations

STUDY = """
name = "small"
models = [{{ name = "scripted" }}]
output = "results/small"
scenarios = ["CTI_ANALYSIS"]
{settings}
[judges]
primary = {{ name = "judge-a", provider = "scripted" }}
secondary = {{ name = "judge-b", provider = "scripted" }}
tertiary = {{ name = "judge-c", provider = "scripted" }}
{judges}
"""

CTI_ONLY = 'scenarios = ["CTI_ANALYSIS"]'
