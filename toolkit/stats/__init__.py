"""The analyses: from tidy frames to results that carry their interval, their n and what was missing."""

from importlib import import_module
from typing import Any

_WHERE = {
    "toolkit.stats.result": ("Estimate", "Result", "estimates_frame", "estimates_of"),
    "toolkit.stats.inference.clusters": ("over_clusters",),
    "toolkit.stats.inference.effect_size": (
        "average_effect_size",
        "bias_corrected",
        "paired_effect_size",
        "standard_deviation",
    ),
    "toolkit.stats.inference.jackknife": ("jackknife_interval",),
    "toolkit.stats.inference.means": ("cluster_robust", "clustered_mean", "clustered_slope", "mean_interval"),
    "toolkit.stats.inference.multiplicity": ("false_discovery", "holm", "with_holm"),
    "toolkit.stats.inference.proportions": ("clopper_pearson", "effective_cases", "share", "wilson"),
    "toolkit.stats.inference.sign_flip": ("sign_flip",),
    "toolkit.stats.agreement.alpha": (
        "alpha_over_dimensions",
        "alpha_over_judges",
        "omega_over_dimensions",
        "omega_over_judges",
        "omega_total",
    ),
    "toolkit.stats.agreement.bland_altman": ("BlandAltman", "bland_altman"),
    "toolkit.stats.agreement.correlations": (
        "clustered_pearson",
        "pearson_between_judges",
        "ranks_between_judges",
    ),
    "toolkit.stats.agreement.icc": ("clustered_icc", "icc_estimates"),
    "toolkit.stats.agreement.incomplete_icc": ("IncompleteIcc", "incomplete_icc"),
    "toolkit.stats.agreement.krippendorff": ("krippendorff_alpha",),
    "toolkit.stats.agreement.ratings": ("RatingMatrix", "rating_matrix", "read_ratings"),
    "toolkit.stats.agreement.reliability": ("Reliability", "ReliabilityDetails", "reliability"),
    "toolkit.stats.agreement.retest": ("Retest", "retest", "retest_frame"),
    "toolkit.stats.agreement.severity": ("Severity", "judge_severity"),
    "toolkit.stats.generalizability.components": ("VarianceComponents", "variance_components"),
    "toolkit.stats.generalizability.d_study": ("Costs", "DecisionPlan", "DecisionStudy", "decision_study"),
    "toolkit.stats.generalizability.design": ("Design", "components_table"),
    "toolkit.stats.generalizability.g_study": ("Generalizability", "generalizability_study"),
    "toolkit.stats.generalizability.study_scores": ("StudyGeneralizability", "study_generalizability"),
    "toolkit.stats.alt_test": ("alternative_annotator_test",),
    "toolkit.stats.alt_test_result": ("AltTest",),
    "toolkit.stats.anova": ("RepeatedMeasures", "friedman", "repeated_measures"),
    "toolkit.stats.auc": ("auc",),
    "toolkit.stats.calibration": ("Calibration", "calibrate"),
    "toolkit.stats.ceiling": ("Ceiling", "ceiling"),
    "toolkit.stats.classification": ("Classification", "Confusion", "classify"),
    "toolkit.stats.detection.deciders": (
        "Decider",
        "baselines",
        "compare_deciders",
        "decider",
        "deciders_frame",
    ),
    "toolkit.stats.dimension_profile": ("DimensionProfile", "dimension_profile"),
    "toolkit.stats.equivalence": ("equivalence",),
    "toolkit.stats.error_bars": ("ModelComparison", "compare_models"),
    "toolkit.stats.focus_contrast": ("FocusContrast", "focus_contrast"),
    "toolkit.stats.judge_card": ("JudgeCard", "judge_cards"),
    "toolkit.stats.kappa": ("cohen_kappa", "fleiss_kappa"),
    "toolkit.stats.length": ("compare_lengths",),
    "toolkit.stats.length_result": ("LengthComparison",),
    "toolkit.stats.length_slope": ("LengthBias", "length_bias"),
    "toolkit.stats.missing_data": ("MissingData", "missing_data"),
    "toolkit.stats.mixed_model": ("mixed_model",),
    "toolkit.stats.mixed_model_result": ("MixedModel",),
    "toolkit.stats.one_shot_compare": ("OneShotComparison", "compare_one_shot"),
    "toolkit.stats.one_shot_methods": ("GroupScore", "MethodScore", "overall"),
    "toolkit.stats.one_shot_pair": ("compare_two_methods",),
    "toolkit.stats.one_shot_power": ("experiments_needed",),
    "toolkit.stats.paired_decisions": ("mcnemar",),
    "toolkit.stats.pareto": ("Pareto", "pareto"),
    "toolkit.stats.people": ("compare_with_people",),
    "toolkit.stats.pilot_result": ("PilotPower",),
    "toolkit.stats.power_answer": ("PowerAnswer", "whole"),
    "toolkit.stats.power_equivalence": ("equivalence_bases", "equivalence_power", "smallest_margin"),
    "toolkit.stats.power_icc": ("answers_for_icc_bound", "answers_for_icc_width", "icc_bound_power"),
    "toolkit.stats.power_paired": ("bases_needed", "detectable_effect", "paired_power", "paired_sample_size"),
    "toolkit.stats.power_pilot": ("pilot_power",),
    "toolkit.stats.ppi": ("CalibratedMean", "prediction_powered_mean"),
    "toolkit.stats.prevalence": ("Prevalence", "corrected_prevalence", "lang_reiczigel"),
    "toolkit.stats.probe_shift": ("ProbeShift", "ProbeShifts", "probe_shifts"),
    "toolkit.stats.rate_difference": ("rate_difference",),
    "toolkit.stats.ratings_needed": ("RatingsNeeded", "ratings_for_agreement", "ratings_for_mean"),
    "toolkit.stats.weighted_kappa": ("weighted_kappa",),
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
