"""The analyses: from tidy frames to results that carry their interval, their n and what was missing."""

from importlib import import_module
from typing import Any

_WHERE = {
    "toolkit.stats.agreement.alpha": (
        "alpha_over_dimensions",
        "alpha_over_judges",
    ),
    "toolkit.stats.agreement.bland_altman": (
        "BlandAltman",
        "bland_altman",
    ),
    "toolkit.stats.agreement.correlations": (
        "clustered_pearson",
        "pearson_between_judges",
        "ranks_between_judges",
    ),
    "toolkit.stats.agreement.icc": (
        "clustered_icc",
        "icc_estimates",
    ),
    "toolkit.stats.agreement.incomplete_icc": (
        "IncompleteIcc",
        "incomplete_icc",
    ),
    "toolkit.stats.agreement.judge_card": (
        "JudgeCard",
        "judge_cards",
    ),
    "toolkit.stats.agreement.krippendorff": ("krippendorff_alpha",),
    "toolkit.stats.agreement.omega": (
        "omega_over_dimensions",
        "omega_over_judges",
        "omega_total",
    ),
    "toolkit.stats.agreement.probe_shift": (
        "ProbeShift",
        "ProbeShifts",
        "probe_shifts",
    ),
    "toolkit.stats.agreement.ratings": (
        "RatingMatrix",
        "rating_matrix",
        "read_ratings",
    ),
    "toolkit.stats.agreement.reliability": (
        "Reliability",
        "ReliabilityDetails",
        "reliability",
    ),
    "toolkit.stats.agreement.retest": (
        "Retest",
        "retest",
        "retest_frame",
    ),
    "toolkit.stats.agreement.severity": (
        "Severity",
        "judge_severity",
    ),
    "toolkit.stats.comparisons.ceiling": (
        "Ceiling",
        "ceiling",
    ),
    "toolkit.stats.comparisons.cost_quality": (
        "Pareto",
        "pareto",
    ),
    "toolkit.stats.comparisons.focus": (
        "FocusContrast",
        "focus_contrast",
    ),
    "toolkit.stats.comparisons.missing_data": (
        "MissingData",
        "missing_data",
    ),
    "toolkit.stats.comparisons.models": (
        "ModelComparison",
        "compare_models",
        "rate_difference",
    ),
    "toolkit.stats.detection.deciders": (
        "Decider",
        "baselines",
        "compare_deciders",
        "decider",
        "deciders_frame",
    ),
    "toolkit.stats.agreement.kappa": (
        "cohen_kappa",
        "fleiss_kappa",
        "weighted_kappa",
    ),
    "toolkit.stats.detection.prevalence": (
        "Prevalence",
        "corrected_prevalence",
        "lang_reiczigel",
    ),
    "toolkit.stats.detection.rates": (
        "Classification",
        "Confusion",
        "auc",
        "classify",
        "mcnemar",
    ),
    "toolkit.stats.generalizability.components": (
        "VarianceComponents",
        "variance_components",
    ),
    "toolkit.stats.generalizability.d_study": (
        "Costs",
        "DecisionPlan",
        "DecisionStudy",
        "decision_study",
    ),
    "toolkit.stats.generalizability.design": (
        "Design",
        "components_table",
    ),
    "toolkit.stats.generalizability.g_study": (
        "Generalizability",
        "generalizability_study",
    ),
    "toolkit.stats.generalizability.study_scores": (
        "StudyGeneralizability",
        "study_generalizability",
    ),
    "toolkit.stats.human.alt_test": (
        "AltTest",
        "alternative_annotator_test",
    ),
    "toolkit.stats.human.calibration": (
        "Calibration",
        "calibrate",
    ),
    "toolkit.stats.human.people": ("compare_with_people",),
    "toolkit.stats.human.ppi": (
        "CalibratedMean",
        "prediction_powered_mean",
    ),
    "toolkit.stats.human.ratings_needed": (
        "RatingsNeeded",
        "ratings_for_agreement",
        "ratings_for_mean",
    ),
    "toolkit.stats.inference.clusters": ("over_clusters",),
    "toolkit.stats.inference.effect_size": (
        "average_effect_size",
        "bias_corrected",
        "paired_effect_size",
    ),
    "toolkit.stats.inference.jackknife": ("jackknife_interval",),
    "toolkit.stats.inference.means": (
        "clustered_mean",
        "mean_interval",
        "standard_deviation",
    ),
    "toolkit.stats.inference.multiplicity": (
        "false_discovery",
        "holm",
        "with_holm",
    ),
    "toolkit.stats.inference.proportions": (
        "clopper_pearson",
        "effective_cases",
        "share",
        "wilson",
    ),
    "toolkit.stats.inference.regression": (
        "cluster_robust",
        "clustered_slope",
    ),
    "toolkit.stats.inference.sign_flip": ("sign_flip",),
    "toolkit.stats.one_shot.compare": (
        "OneShotComparison",
        "compare_one_shot",
        "compare_two_methods",
    ),
    "toolkit.stats.one_shot.methods": (
        "GroupScore",
        "MethodScore",
        "overall",
    ),
    "toolkit.stats.power.answer": (
        "PowerAnswer",
        "whole",
    ),
    "toolkit.stats.power.experiments": ("experiments_needed",),
    "toolkit.stats.power.icc": ("answers_for_icc_width",),
    "toolkit.stats.power.paired": (
        "bases_needed",
        "detectable_effect",
        "equivalence_bases",
        "paired_power",
        "paired_sample_size",
    ),
    "toolkit.stats.power.pilot": (
        "PilotPower",
        "pilot_power",
    ),
    "toolkit.stats.prompt_length.contrasts": (
        "LengthComparison",
        "compare_lengths",
        "compare_lengths_by_model",
    ),
    "toolkit.stats.prompt_length.dimension_profile": (
        "DimensionProfile",
        "dimension_profile",
    ),
    "toolkit.stats.prompt_length.equivalence": ("equivalence",),
    "toolkit.stats.prompt_length.mixed_model": (
        "MixedModel",
        "mixed_model",
    ),
    "toolkit.stats.prompt_length.omnibus": (
        "RepeatedMeasures",
        "friedman",
        "repeated_measures",
    ),
    "toolkit.stats.prompt_length.reply_length": (
        "LengthBias",
        "length_bias",
    ),
    "toolkit.stats.result": (
        "Estimate",
        "Result",
        "estimates_frame",
        "estimates_of",
    ),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import an analysis when it is first asked for: scipy, pandas and statsmodels take seconds (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'toolkit.stats' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """Return the names of the analyses."""
    return __all__
