"""Every public member of a study and of scores works, or says in one line why it cannot."""

import pytest

from tests.study.test_scores import ratings
from toolkit import Scores
from toolkit.errors import ToolkitError

pytestmark = pytest.mark.usefixtures("no_pictures")

REFUSED = {
    "experiments": "has no experiments", "methods": "has no experiments",
    "sequential": "models",
    **dict.fromkeys(("accuracy", "position_effect", "label_scores", "model_power"), "not compared with a key"),
    "keyed_answers": "has no key", "compare_pairs": "compared replies in pairs", "pair_agreement": "compared replies",
    "adaptive": "12 are needed", "calibration": "nobody", "required_elements": "elements", "rate": "",
}  # fmt: skip
"""Members that the small study refuses, with words of the reason."""


def arguments(study, tmp_path):
    """Return what the members that need something are called with."""
    runs = study.runs()
    return {
        "adaptive": (0.5,),
        "answer": ("length",),
        "answers": ("length",),
        "conditions": ("length",),
        "bundle": (tmp_path / "bundle",),
        "figures": (tmp_path / "figures", ["judge_agreement"]),
        "load": (study.path,),
        "prompt": (runs["prompt_id"].iloc[0],),
        "rate": ("anna",),
        "reply": (runs["run_id"].iloc[0],),
        "statistics": (tmp_path / "statistics",),
    }


def test_every_public_member_of_a_study_works(study, tmp_path):
    """A finished study with three judges and one model; what it has no data for is refused in one line."""
    given, refused = arguments(study, tmp_path), {}
    for name in (name for name in dir(study) if name not in ("close", "run", "execute", "ending")):
        member = getattr(study, name)
        try:
            value = member(*given.get(name, ())) if callable(member) else member
        except ToolkitError as problem:
            refused[name] = str(problem)
        else:
            assert value is not None, name
    calls = len(study.calls())
    assert study.run(progress=False) == study.execute(progress=False).to_dict()
    assert len(study.calls()) == calls
    study.close()
    assert {
        name: why for name, why in refused.items() if "\n" in why or REFUSED.get(name, "\n") not in why
    } == {}


def test_a_study_says_what_it_can_answer(study):
    """The same questions as scores of others have, with reasons of a study."""
    questions = study.questions().set_index("analysis")
    assert questions.loc["length", "answerable"]
    assert questions.loc["compare_models", "why_not"] == "one model"
    assert questions.loc["calibration", "why_not"] == "nobody rated a reply"
    assert study.answers("length")
    assert not study.answers("length", "compare_models")
    for name in questions.index[questions["answerable"]]:
        given = ("length",) if name == "conditions" else ()
        assert getattr(study.frames(), name)(*given) is not None, name
    assert list(study.result_types()["name"]) == list(study.results()["name"])


def test_every_public_member_of_scores_works(tmp_path):
    """Scores of two models by three judges and a person; what they have no column for is refused by name."""
    ratings(people=12).to_csv(tmp_path / "scores.csv", index=False)
    scores = Scores.load(tmp_path / "scores.csv", output=tmp_path / "out")
    given = {
        "answer": ("reliability",),
        "answers": ("length",),
        "conditions": ("length",),
        "load": (tmp_path / "scores.csv",),
    }
    refused = {}
    for name in (name for name in dir(scores) if not name.startswith("_")):
        member = getattr(scores, name)
        try:
            assert (member(*given.get(name, ())) if callable(member) else member) is not None, name
        except ToolkitError as problem:
            refused[name] = str(problem)
    assert all(scores.unanswerable[name] in why for name, why in refused.items())
    assert refused.keys() == scores.unanswerable.keys() - {"compare_judges"}
