"""A study whose truth is in its file: what is found has it, and a truth that is not planted is found out."""

import pytest
from places import PLANTED
from small_study import executed

from toolkit.errors import StudyError
from toolkit.getting_started.demo import planted_and_found
from toolkit.models.entries import ModelEntry
from toolkit.study import Study


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The planted study of the demo, finished."""
    path = tmp_path_factory.mktemp("planted") / "planted.toml"
    path.write_text(PLANTED.read_text(encoding="utf-8").replace("../results", "results"))
    with executed(path) as study:
        yield study


def test_every_planted_value_is_in_its_interval(planted):
    found = planted_and_found(planted).set_index("what")
    assert found["inside"].all(), found
    assert found.loc[["M-S", "L-M", "leniency of tertiary"], "planted"].tolist() == pytest.approx(
        [0.3, 0, -0.4]
    )
    assert planted.length().contrasts[0].remarks.startswith("confirmatory")
    assert planted.run(progress=False)["new_calls"] == 0


def test_a_truth_that_is_not_planted_is_found_out(planted):
    """The same replies held against another study file."""
    other = planted.file.models[0].planted.model_copy(update={"m_minus_s": 0.0, "level": 3.3})
    entries = tuple(entry.model_copy(update={"planted": other}) for entry in planted.file.models[:1])
    wrong = Study.load(planted.path)
    wrong.file = planted.file.model_copy(update={"models": entries + planted.file.models[1:]})
    wrong.plan = planted.plan
    found = planted_and_found(wrong).set_index("what")["inside"]
    wrong.close()
    for what, inside in found.items():
        assert inside == (what not in ("M-S", "planted-a - planted-b", "planted-a - planted-c")), what


def test_where_nothing_is_planted_there_is_no_table(study):
    assert planted_and_found(study).empty


def test_bases_are_drawn_by_the_seed_and_too_many_are_refused(planted, tmp_path):
    bases = {run.prompt.prompt_id.rpartition("_")[0] for run in planted.plan.runs}
    assert len(bases) == 36
    for line, words in (("bases = 101", "have 100"), ("bases = 0", "bases")):
        path = tmp_path / "study.toml"
        path.write_text(PLANTED.read_text(encoding="utf-8").replace("bases = 36", line))
        with pytest.raises(StudyError, match=words):
            _ = Study.load(path).plan


def test_a_real_model_cannot_be_given_a_truth(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text('name = "s"\nmodels = [{ name = "gpt-4o", planted = { level = 5 } }]\n')
    with pytest.raises(StudyError, match="planted is for provider"):
        Study.load(path)


def test_another_truth_is_another_model():
    """Calls of a truth that was changed are not taken from the ledger."""
    truths = [{"level": 3.0}, {"level": 3.0}, {"level": 2.6}]
    ends = [ModelEntry(name="m", provider="scripted", planted=truth).spec.endpoint for truth in truths]
    assert ends[0] == ends[1] != ends[2]
