"""No page, template, notebook, message, table or help names what was taken out of the package."""

import re

import pytest
from places import ROOT

REMOVED = """
alternative_annotator_test AltTest alt_tests ratings_for_agreement ratings_for_mean RatingsNeeded corrected_prevalence
lang_reiczigel Prevalence false_discovery BlandAltman bland_altman_between_judges clustered_icc incomplete_icc
judge_severity ReliabilityDetails read_ratings omega_total omega_over_judges omega_over_dimensions submatrix
ranks_between_judges icc_independent weighted_kappa_between_judges mixed_model MixedModel friedman RepeatedMeasures
average_effect_size average_effect_sizes gain_per_cost experiments_needed answers_for_icc_width imbalance_test
terms_table base_models judge_dimensions length_scenario quality_gain judge_card judge_cards JudgeCard icc_forms
forms_table AnswerKey answer_key with_key CheckedClaim TypedVerdict READERS fast_records
pyshark_records hallucination_judge refuted not_checked contrasts_table hallucination_contrasts hallucination_text
import_archive write_archive check_archive add_archive pack_archive write_crate differing_export write_inspect_logs
load_frame fault_of bring_forward calls_beside BatchDesk LOCAL_LIMITS HTTP_LIMITS may_share price_changes
 two_machines UNRECORDED_RATE CallIds asked_times missing_codes read_athenabench
prompt_file load_prompts rq1_controlled_v1 write_dataset_figures dataset_report dataset_manifest compare_lengths
compare_lengths_by_model length_by_model length_and_information focus_contrast reference_effect judge_weighting
krippendorff_difference length_effects per_bin compare_one_shot sign_flip
""".split()  # noqa: SIM905 - a table of words
PHRASES = (
    "`toolkit import",
    "prompts publish",
    "convert --reader",
    "verify --export",
    "--into ",
    "mean of bin",
    "F(bins)",
)
SUFFIXES = {".py", ".md", ".toml", ".ipynb", ".jinja", ".csv", ".json", ".js", ".tex"}


@pytest.fixture(scope="module")
def texts():
    """Every text that a user or a reader of the code may meet, by its path."""
    folders = ("toolkit", "docs", "templates", "notebooks", "scripts")
    paths = [path for name in folders for path in (ROOT / name).rglob("*")]
    paths = [path for path in paths if path.suffix in SUFFIXES and "generated" not in path.parts]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in (*paths, ROOT / "README.md")
    }


def test_a_removed_name_is_nowhere(texts):
    pattern = re.compile(rf"\b(?:{'|'.join(REMOVED)})\b|{'|'.join(map(re.escape, PHRASES))}")
    named = {
        f"{path}, line {text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in texts.items()
        for match in pattern.finditer(text)
    }
    assert sorted(named) == []
