"""The field's words as constants: dimensions, scenarios, length bins and judge roles.

Everything that names one of these imports it from here, so a spelling exists once.
"""

from __future__ import annotations

from typing import Final

DIMENSIONS: Final = (
    "technical_accuracy",
    "actionability",
    "completeness",
    "compliance_alignment",
    "risk_awareness",
    "relevance",
    "clarity",
)
SCALE: Final = (0.0, 5.0)
SCENARIOS: Final = ("SOC_INCIDENT", "GRC_MAPPING", "CTI_ANALYSIS")
LENGTH_BINS: Final = {"S": (150, 250), "M": (450, 550), "L": (800, 1000)}
"""Inclusive token ranges of the three prompt lengths (seed 002, section 1.2)."""
JUDGE_ROLES: Final = ("primary", "secondary", "tertiary")
