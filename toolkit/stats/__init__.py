"""The analyses: from tidy frames to results that carry their interval, their n and what was missing."""

from importlib import import_module
from typing import Any

# fmt: off
_NAMES = {
        "adaptive.benchmark": ("Benchmark", "benchmark_designs", "BenchmarkDesign"),
        "adaptive.sequential": ("Bank", "boundary", "read_bank", "Sequential", "sequential_comparison"),
        "adaptive.taxonomy": ("sample_taxonomy", "Taxonomy"),
        "agreement.alpha": ("alpha_over_dimensions", "alpha_over_judges", "krippendorff_alpha"),
        "agreement.correlations": ("clustered_pearson", "pearson_between_judges"),
        "agreement.drift": ("Drift", "judge_drift", "JudgeDrift"),
        "agreement.elements": ("required_elements", "RequiredElements"),
        "agreement.icc": ("icc_estimates",),
        "agreement.judge_comparison": ("compare_judges", "JudgeComparison"),
        "agreement.kappa": ("cohen_kappa", "fleiss_kappa", "weighted_kappa"),
        "agreement.probe_shift": ("probe_shifts", "ProbeShift", "ProbeShifts"),
        "agreement.ratings": ("rating_matrix", "RatingMatrix"),
        "agreement.reliability": ("Reliability", "reliability"),
        "agreement.retest": ("retest",),
        "comparisons.accuracy": ("Accuracy", "accuracy"),
        "comparisons.choices": ("label_scores", "LabelScores", "position_effect", "PositionEffect"),
        "comparisons.ceiling": ("ceiling", "Ceiling"),
        "comparisons.cost_quality": ("pareto", "Pareto", "point_cost"),
        "comparisons.focus": ("focus_contrast", "FocusContrast", "reference_effect", "ReferenceEffect"),
        "comparisons.missing_data": ("missing_data", "MissingData"),
        "comparisons.models": ("compare_models", "ModelComparison", "rate_difference"),
        "comparisons.pairs": ("compare_pairs", "pair_agreement", "PairAgreement", "PairComparison"),
        "detection.deciders": ("baselines", "compare_deciders", "Decider", "decider", "deciders_frame"),
        "detection.rates": ("auc", "Classification", "classify", "Confusion", "mcnemar"),
        "generalizability.components": ("variance_components", "VarianceComponents"),
        "generalizability.design": ("components_table", "Design"),
        "generalizability.g_study": ("Costs", "decision_study", "DecisionPlan", "DecisionStudy",
        "Generalizability", "generalizability_study"),
        "generalizability.study_scores": ("study_generalizability", "StudyGeneralizability"),
        "human.calibration": ("calibrate", "Calibration", "compare_with_people"),
        "human.ppi": ("CalibratedMean", "prediction_powered_mean"),
        "inference.clusters": ("over_clusters",),
        "inference.effect_size": ("bias_corrected", "paired_effect_size", "standard_deviation"),
        "inference.jackknife": ("jackknife_interval",),
        "inference.means": ("cluster_robust", "clustered_mean", "clustered_slope", "mean_interval"),
        "inference.p_values": ("holm", "sign_flip", "with_holm"),
        "inference.proportions": ("clopper_pearson", "share", "wilson"),
        "one_shot.methods": ("compare_one_shot", "compare_two_methods", "GroupScore", "MethodScore",
        "OneShotComparison", "overall"),
        "power.pilot": ("model_power", "ModelPower", "pilot_power", "PilotPower"),
        "power.sample_size": ("bases_needed", "detectable_effect", "equivalence_bases", "PowerAnswer", "whole"),
        "prompt_length.contrasts": ("compare_lengths", "compare_lengths_by_model", "equivalence",
        "LengthComparison", "repeated_measures"),
        "prompt_length.dimension_profile": ("dimension_profile", "DimensionProfile"),
        "prompt_length.information": ("length_and_information", "LengthInformation"),
        "prompt_length.reply_length": ("length_bias", "LengthBias"),
        "result": ("Estimate", "estimates_frame", "estimates_of", "Result"),
}
# fmt: on
"""Names that are exported, by their module."""
_MODULES = {name: f"toolkit.stats.{module}" for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import an analysis when it is first asked for: scipy, pandas and statsmodels take seconds (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module 'toolkit.stats' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    """Return the names of the analyses."""
    return __all__
