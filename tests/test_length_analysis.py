"""The study file fixes the margin beforehand, and a study in hand answers the questions about length."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolkit.errors import StudyError
from toolkit.study import Study
from toolkit.study_file import load_study_file


def load(folder: Path, text: str) -> object:
    path = folder / "s.toml"
    path.write_text(f'name = "p"\nmodels = ["gpt-4o"]\n{text}')
    return load_study_file(path)[0].analysis


def test_no_margin_is_the_default_and_means_no_test(tmp_path: Path) -> None:
    """Equivalence is tested only against a margin that somebody wrote down."""
    analysis = load(tmp_path, "")
    assert (analysis.equivalence_margin, analysis.ceiling_share) == (None, 0.3)
    written = load(tmp_path, "[analysis]\nequivalence_margin = 0.25\nceiling_share = 0.5")
    assert (written.equivalence_margin, written.ceiling_share) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("equivalence_margin = 0", "analysis.equivalence_margin"),
        ("equivalence_margin = -0.1", "analysis.equivalence_margin"),
        ("equivalence_margin = inf", "analysis.equivalence_margin"),
        ("equivalence_margin = nan", "analysis.equivalence_margin"),
        ("ceiling_share = 1.5", "analysis.ceiling_share"),
        ("margin = 0.25", "unknown key analysis.margin; allowed here: ceiling_share, equivalence_margin"),
    ],
)
def test_a_margin_that_means_nothing_is_refused(tmp_path: Path, text: str, key: str) -> None:
    """One line with the key."""
    with pytest.raises(StudyError) as caught:
        load(tmp_path, f"[analysis]\n{text}")
    assert key in str(caught.value)


def test_a_finished_study_answers_every_question_about_length(demo_like_study: Path) -> None:
    """Twelve bases by scripted models: tests of any difference, length bias, mixed model and front, all told."""
    study = Study.load(demo_like_study)
    comparison = study.length()
    assert comparison.anova is not None
    assert comparison.anova.n == {"bases": 12, "bins": 3}
    assert comparison.equivalence == ()
    bias = study.length_bias()
    assert bias.slope.n == {"bases": 12, "answers": 36}
    assert len(bias.to_frame()) == 7
    model = study.mixed_model()
    assert model.n["bases"] == 12
    front = study.pareto()
    assert {point.length_bin for point in front.points} == {"S", "M", "L"}
    assert all(point.per_aud.sentence() for point in front.points)
    study.store.close()


def test_the_margin_of_the_study_file_reaches_the_test(demo_like_study: Path) -> None:
    """The same runs under a file with a margin: three tests of equivalence that name it."""
    study = Study.load(demo_like_study)
    analysis = study.file.analysis.model_copy(update={"equivalence_margin": 0.25})
    study.file = study.file.model_copy(update={"analysis": analysis})
    found = study.length().equivalence
    assert len(found) == 3
    assert all("±0.25" in one.note for one in found)
    study.store.close()
