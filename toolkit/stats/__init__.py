"""The analyses: from tidy frames to results that carry their interval, their n and what was missing."""

from importlib import import_module
from typing import Any

_WHERE = {
    "toolkit.stats.adaptive.benchmark": ("Benchmark", "benchmark_designs", "BenchmarkDesign"),
    "toolkit.stats.adaptive.sequential": (
        "Bank",
        "boundary",
        "read_bank",
        "Sequential",
        "sequential_comparison",
    ),
    "toolkit.stats.adaptive.taxonomy": ("novelty", "sample_taxonomy", "Taxonomy"),
    "toolkit.stats.agreement.alpha": (
        "alpha_over_dimensions",
        "alpha_over_judges",
        "krippendorff_alpha",
        "omega_over_dimensions",
        "omega_over_judges",
        "omega_total",
    ),
    "toolkit.stats.agreement.bland_altman": ("bland_altman", "BlandAltman"),
    "toolkit.stats.agreement.correlations": (
        "clustered_pearson",
        "pearson_between_judges",
        "ranks_between_judges",
    ),
    "toolkit.stats.agreement.elements": ("required_elements", "RequiredElements"),
    "toolkit.stats.agreement.icc": ("clustered_icc", "icc_estimates", "incomplete_icc"),
    "toolkit.stats.agreement.judge_card": ("judge_cards", "JudgeCard"),
    "toolkit.stats.agreement.kappa": ("cohen_kappa", "fleiss_kappa", "weighted_kappa"),
    "toolkit.stats.agreement.probe_shift": ("probe_shifts", "ProbeShift", "ProbeShifts"),
    "toolkit.stats.agreement.ratings": ("rating_matrix", "RatingMatrix", "read_ratings"),
    "toolkit.stats.agreement.reliability": ("Reliability", "reliability", "ReliabilityDetails"),
    "toolkit.stats.agreement.retest": ("Retest", "retest"),
    "toolkit.stats.agreement.severity": ("judge_severity", "Severity"),
    "toolkit.stats.comparisons.ceiling": ("ceiling", "Ceiling"),
    "toolkit.stats.comparisons.cost_quality": ("pareto", "Pareto"),
    "toolkit.stats.comparisons.focus": ("focus_contrast", "FocusContrast"),
    "toolkit.stats.comparisons.missing_data": ("missing_data", "MissingData"),
    "toolkit.stats.comparisons.models": ("compare_models", "ModelComparison", "rate_difference"),
    "toolkit.stats.detection.deciders": (
        "baselines",
        "compare_deciders",
        "Decider",
        "decider",
        "deciders_frame",
    ),
    "toolkit.stats.detection.prevalence": ("corrected_prevalence", "lang_reiczigel", "Prevalence"),
    "toolkit.stats.detection.rates": ("auc", "Classification", "classify", "Confusion", "mcnemar"),
    "toolkit.stats.generalizability.components": ("variance_components", "VarianceComponents"),
    "toolkit.stats.generalizability.design": ("components_table", "Design"),
    "toolkit.stats.generalizability.g_study": (
        "Costs",
        "decision_study",
        "DecisionPlan",
        "DecisionStudy",
        "Generalizability",
        "generalizability_study",
    ),
    "toolkit.stats.generalizability.study_scores": ("study_generalizability", "StudyGeneralizability"),
    "toolkit.stats.human.alt_test": ("alternative_annotator_test", "AltTest"),
    "toolkit.stats.human.calibration": ("calibrate", "Calibration", "compare_with_people"),
    "toolkit.stats.human.ppi": ("CalibratedMean", "prediction_powered_mean"),
    "toolkit.stats.human.ratings_needed": ("ratings_for_agreement", "ratings_for_mean", "RatingsNeeded"),
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
    "toolkit.stats.one_shot.compare": ("compare_one_shot", "compare_two_methods", "OneShotComparison"),
    "toolkit.stats.one_shot.methods": ("GroupScore", "MethodScore", "overall"),
    "toolkit.stats.power.answer": ("PowerAnswer", "whole"),
    "toolkit.stats.power.experiments": ("experiments_needed",),
    "toolkit.stats.power.sample_size": (
        "answers_for_icc_width",
        "bases_needed",
        "detectable_effect",
        "equivalence_bases",
    ),
    "toolkit.stats.power.pilot": ("pilot_power", "PilotPower"),
    "toolkit.stats.prompt_length.contrasts": (
        "compare_lengths",
        "compare_lengths_by_model",
        "equivalence",
        "LengthComparison",
    ),
    "toolkit.stats.prompt_length.dimension_profile": ("dimension_profile", "DimensionProfile"),
    "toolkit.stats.prompt_length.mixed_model": ("mixed_model", "MixedModel"),
    "toolkit.stats.prompt_length.omnibus": ("friedman", "repeated_measures", "RepeatedMeasures"),
    "toolkit.stats.prompt_length.reply_length": ("length_bias", "LengthBias"),
    "toolkit.stats.result": ("Estimate", "estimates_frame", "estimates_of", "Result"),
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
