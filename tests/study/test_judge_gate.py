"""The gate of judges: who agrees too little with people spends nothing more, or is named on every page."""

import csv
import json
import re

import pytest
from small_study import STUDY, served_study

from toolkit import Study
from toolkit.errors import InputError
from toolkit.people.ratings_file import import_ratings
from toolkit.viewer.page import heading
from toolkit.words import DIMENSIONS

GATE = "gate = {{ least = 0.5{more} }}\n"
_REPLY = re.compile(r"Scripted reply ([0-9a-f]{12})\.")


def quality(text):
    """Return the score that a reply deserves, by its name."""
    return int(_REPLY.search(text)[1], 16) % 6


def judged(body):
    """Answer as judges of whom the contrary one takes every second good reply for a bad one."""
    score = quality(body["messages"][-1]["content"])
    if body["model"] == judged.contrary and score % 2:
        score = 5 - score
    return json.dumps(dict.fromkeys(DIMENSIONS, score))


@pytest.fixture
def study(server, tmp_path, store_folder):
    """Thirty-six runs by a scripted model, judged by three judges at a server, behind a gate."""
    judged.contrary, server.answer = "", judged

    def make(more="", judges=""):
        text = STUDY.replace('scenarios = ["CTI_ANALYSIS"]', 'dataset = "demo"')
        return served_study(
            tmp_path, server, text.format(settings="", judges=GATE.format(more=more) + judges)
        )

    return make


def rate_first(study, count=30):
    """Run the first replies, and have a person rate them nearly as they deserve."""
    study.execute(progress=False, limit=count)
    path = study.path.with_name("ratings.csv")
    with path.open("w", newline="") as sink:
        rows = csv.writer(sink)
        rows.writerow(["run_id", "rater", *DIMENSIONS])
        for place, (run_id, reply) in enumerate(
            study.runs(replies=True)[["run_id", "reply"]].itertuples(index=False)
        ):
            near = [min(5, max(0, quality(reply) + ((place + of) % 5 == 0))) for of in range(len(DIMENSIONS))]
            rows.writerow([run_id, "anna", *near])
    import_ratings(study.plan, study.store, path)


def test_nothing_is_spent_before_people_have_rated(study, server, toolkit):
    """One line that says what to do; the pilot that is rated passes."""
    made = study()
    code, _, err = toolkit("run", made.path, "--yes")
    assert (code, err.count("\n")) == (2, 1)
    assert "judges.gate: nobody has rated a reply under rubric default; run with --limit 30" in err
    assert server.count == 0
    made.execute(progress=False, limit=2)
    assert server.count == 6


def test_judges_who_agree_with_people_go_on_and_the_gate_lapses_with_the_rubric(study, server):
    """All is judged; another rubric has no ratings yet, and the same study stops before its first call."""
    made = study()
    rate_first(made)
    made.execute(progress=False)
    assert len(made.judgements()) == 36 * 3
    assert "Uncalibrated" not in made.note
    before = server.count
    made.path.write_text(made.path.read_text().replace("[judges]", '[judges]\nrubric = "seed-v1"'))
    with pytest.raises(InputError, match="nobody has rated a reply under rubric seed-v1"):
        Study.load(made.path).execute(progress=False)
    assert server.count == before


def test_a_judge_who_disagrees_stops_the_study_before_the_rest_is_asked(study, server):
    """It is named with the dimension, the coefficient and what was asked for; no reply and no judgement is added."""
    judged.contrary = "judge-b"
    made = study()
    rate_first(made)
    before = server.count
    with pytest.raises(InputError) as caught:
        made.execute(progress=False)
    message = str(caught.value)
    assert message.startswith("judges.gate: ICC(A,1) of people and secondary, technical_accuracy")
    assert "the interval must begin at 0.5" in message
    assert "and 4 more; change judge or rubric" in message
    assert "primary" not in message
    assert (server.count, len(made.runs())) == (before, 30)


def test_a_changed_judge_is_asked_about_the_rated_replies_before_all_others(study, server):
    """The earlier judge's agreement is not that of the one who takes its place."""
    made = study()
    rate_first(made)
    made.path.write_text(made.path.read_text().replace('name = "judge-a"', 'name = "judge-d"'))
    judged.contrary = "judge-d"
    before = server.count
    with pytest.raises(InputError, match=r"judges\.gate: ICC\(A,1\) of people and primary"):
        Study.load(made.path).execute(progress=False)
    assert server.count == before + 30
    assert len(Study.load(made.path).runs()) == 30


def test_another_version_of_a_judge_lapses_the_gate(study):
    """People were compared with the one that answered first."""
    made = study(', below = "report"')
    rate_first(made)
    made.execute(progress=False)
    assert "Uncalibrated" not in made.note
    call = made.store.database["calls"].find_one({"purpose": "judge", "model": "judge-a"})
    made.store.database["calls"].update_one({"_id": call["_id"]}, {"$set": {"answered_by": "judge-a-2027"}})
    assert "Uncalibrated: judge judge-a was answered by judge-a and judge-a-2027" in made.note


def test_a_study_that_only_reports_goes_on_and_says_so_on_every_page(study):
    """Captions and the heading of the table of replies begin with it."""
    judged.contrary = "judge-b"
    made = study(', below = "report"')
    rate_first(made)
    made.execute(progress=False)
    assert len(made.judgements()) == 36 * 3
    first = "No model answered: replies are scripted. Uncalibrated: ICC(A,1) of people and secondary, "
    assert made.note.startswith(f"{first}technical_accuracy")
    assert made._figure_context(made.frames()).warning.startswith(first)
    assert heading(made.view().plan)["warning"].startswith(first)


@pytest.mark.parametrize(("text", "reason"), [
    ("gate = {}", "least"), ("gate = { least = 2 }", "judges.gate.least"),
    ('gate = { least = 0.5, below = "warn" }', "judges.gate.below"), ("gate = 0.5", "judges.gate"),
])  # fmt: skip
def test_a_gate_that_cannot_be_used_is_refused_in_one_line(tmp_path, text, reason):
    """What is wrong, and where."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(settings="", judges=text))
    with pytest.raises(InputError) as caught:
        Study.load(path)
    assert reason in str(caught.value)
