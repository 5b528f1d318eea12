"""A test with a key through a whole study: asked, compared, analysed, drawn, and what the table may get wrong."""

import re
import shutil
from ipaddress import ip_address, ip_network

import pandas as pd
import pytest
from places import TEMPLATES
from refusals import refusal

from toolkit import Study

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Return the keyed twin of the planted study, run once."""
    folder = tmp_path_factory.mktemp("keyed")
    for name in ("planted_keyed.toml", "planted_keyed.csv"):
        shutil.copy(TEMPLATES / name, folder)
    text = (folder / "planted_keyed.toml").read_text().replace("../results", "results")
    (folder / "planted_keyed.toml").write_text(text)
    study = Study.load(folder / "planted_keyed.toml")
    study.run(progress=False)
    return study


RIGHT = '{ name = "m", provider = "scripted", replies = ["Answer: A"] }'


def small(folder, table, options="", **keys):
    """Return a study of one scripted model over a table."""
    (folder / "set.csv").write_text(table)
    model = keys.pop("model", RIGHT)
    more = "\n".join(f"{name} = {value}" for name, value in keys.items())
    (folder / "set.toml").write_text(
        f'name = "small"\ntest = "keyed"\ndataset = "set.csv"\nmodels = [{model}]\n{more}\n[options]\n{options}\n'
    )
    return Study.load(folder / "set.toml")


CHOICE = (
    "id,question,option_a,option_b,answer\nq1,Which port has SSH?,22,23,A\nq2,Which port has DNS?,53,80,A\n"
)


def test_the_shipped_key_is_true():
    """Of each question exactly the option that the key names lies in the network of the question."""
    table = pd.read_csv(TEMPLATES / "planted_keyed.csv")
    for row in table.itertuples():
        inside = [
            letter
            for letter, address in zip(
                "ABCD", (row.option_a, row.option_b, row.option_c, row.option_d), strict=True
            )
            if ip_address(address) in ip_network(row.network)
        ]
        assert inside == [row.answer], row.id
        assert str(row.network) in row.question


def test_planted_accuracies_are_in_their_intervals(planted):
    """The truth of the study file lies in each interval, and equal models are not told apart."""
    truth = {entry.name: entry.planted.accuracy for entry in planted.file.models if entry.planted}
    result = planted.accuracy()
    assert len(result.accuracies) == 3
    for estimate in result.accuracies:
        assert estimate.low <= truth[estimate.facets["model"]] <= estimate.high
        assert estimate.n["answers"] + estimate.missing == 200
    differences = {d.name: d for d in planted.compare_models().differences}
    assert differences["planted-a - planted-b"].low < 0 < differences["planted-a - planted-b"].high
    assert differences["planted-a - planted-c"].low > 0
    assert {reason for reasons in result.missing.values() for reason in reasons} == {"planted_failure"}


def test_five_questions_on_one_network_are_one_group(planted):
    """Intervals count the twenty networks of the table, not its hundred questions."""
    assert {e.n["independent groups"] for e in planted.accuracy().accuracies} == {20}
    assert set(planted.runs()["cluster"].groupby(planted.runs()["base"].str[:5]).nunique()) == {1}


def test_options_are_shuffled_by_seed_and_repeat(planted):
    """The two repeats show different orders, the same ones when the study is loaded again, right option anywhere."""
    answers = planted.keyed_answers()
    places = answers.groupby(["base", "repeat"])["position"].first().unstack()
    assert (places[0] != places[1]).mean() > 0.5
    assert set(places[0]) == {0, 1, 2, 3}
    again = Study.load(planted.path)
    assert [run.call_id for run in again.plan.runs] == [run.call_id for run in planted.plan.runs]
    prompts = planted.prompts().set_index("prompt_id")["text"]
    assert prompts["net01-1"] != prompts["net01-1/order2"]
    assert sorted(prompts["net01-1"]) == sorted(prompts["net01-1/order2"])


def test_a_finished_study_asks_nothing(planted):
    """A second run pays nothing, and what it says is the same."""
    before = planted.results()
    assert planted.execute(progress=False).new_calls == 0
    pd.testing.assert_frame_equal(planted.results(), before)


def test_bundle_and_figures(planted, tmp_path):
    """Figures, statistics and methods are those of accuracy, and say what the key was."""
    paths = {path.name for path in planted.bundle(tmp_path / "bundle", supplement=True)}
    assert {"model_means.pdf", "accuracy.csv", "models.csv", "methods.txt", "findings.csv"} <= paths
    assert not (tmp_path / "bundle" / "figures" / "left_out.txt").exists()  # what is not measured is no loss
    methods = (tmp_path / "bundle" / "methods.txt").read_text()
    assert "compared with the key of planted_keyed.csv" in methods
    assert planted.plan.test.table.sha256[:12] in methods
    assert "judge" not in methods.lower()


def test_what_cannot_be_read_is_missing(tmp_path):
    """A reply without an answer in the form has no score and its reason; it is neither wrong nor right."""
    model = '{ name = "m", provider = "scripted", replies = ["I would think about ports."] }'
    study = small(tmp_path, CHOICE, model=model)
    summary = study.execute(progress=False).summary()
    assert summary.exit_code == 1
    assert "UNREADABLE  no reply of m could be read" in summary.text
    answers = study.keyed_answers()
    assert answers["correct"].isna().all()
    assert answers["reason"].notna().all()
    result = study.accuracy()
    assert (result.accuracies[0].estimate, result.accuracies[0].missing) == (None, 2)
    assert (result.of_all[0].estimate, result.readable[0].estimate) == (0.0, 0.0)


def test_two_accuracies_side_by_side(tmp_path):
    """What cannot be read is missing in one and wrong in the other; a run that failed is missing in both."""
    models = (
        '{ name = "m", provider = "scripted", replies = ["Answer: A", "Who knows."] }, '
        '{ name = "n", provider = "scripted", planted = { accuracy = 1.0, failures = 0.5 } }'
    )
    rows = "".join(f"q{n},Which port has SSH {n}?,22,23,A\n" for n in range(3, 23))
    study = small(tmp_path, CHOICE + rows, "shuffle = false", model=models)
    study.run(progress=False)
    answers = study.keyed_answers()
    m, n = (answers[answers["model"] == name] for name in "mn")
    assert m["correct_of_all"].tolist() == m["correct"].fillna(0.0).tolist()
    assert 0 < n["correct"].isna().sum() == n["correct_of_all"].isna().sum() < 22
    result = study.accuracy()
    assert [e.estimate for e in result.accuracies] == [1.0, 1.0]
    assert [e.estimate for e in result.of_all] == [m["correct_of_all"].mean(), 1.0]
    assert [e.estimate for e in result.readable] == [m["correct"].notna().mean(), 1.0]
    assert result.readable[0].low < result.readable[0].estimate < result.readable[0].high
    assert "of its replies can be read, and with the others counted as wrong the share is" in " ".join(
        study.findings().sentences()
    )


KEYS = {
    "choice": "ABC", "set": ["AB", "C", "AC"], "label": ["red fox", "blue", "red"], "yes_no": ["yes", "no", "no"],
    "number": ["5 MB", "1,200 MB", "0.5 MB"], "identifier": ["T1059.001", "T1566", "T1003"],
    "cvss": ["CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", "CVSS:3.1/AV:L/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"] * 2,
}  # fmt: skip


@pytest.mark.parametrize("scorer", KEYS)
def test_planted_accuracy_on_any_table(tmp_path, scorer):
    """A user's own questions: every reply is read, and the planted truth lies in the interval."""
    options = ("one", "two", "three") if scorer in ("choice", "set") else ()
    rows = [[f"q{n}", f"Question {n}?", *options, KEYS[scorer][n % 3]] for n in range(60)]
    heads = ["id", "question", *(f"option_{letter}" for letter in "abc"[: len(options)]), "answer"]
    table = pd.DataFrame(rows, columns=heads).to_csv(index=False)
    model = '{ name = "m", provider = "scripted", planted = { accuracy = 0.7 } }'
    study = small(tmp_path, table, f'scorer = "{scorer}"', model=model)
    study.run(progress=False)
    assert study.keyed_answers()["reason"].isna().all()
    (estimate,) = study.accuracy().accuracies
    assert estimate.low < 0.7 < estimate.high


@pytest.mark.parametrize(
    ("table", "keys", "words"),
    [
        (CHOICE.replace(",A\n", ",E\n", 1), {}, "row"),
        (CHOICE.replace("q2", "q1"), {}, "q1"),
        ("id,question,option_a,option_b,answer\n", {}, "set.csv"),
        (CHOICE, {"bases": "3"}, "the table has 2 questions"),
        (CHOICE.replace("answer", "solved"), {}, "answer"),
    ],
)
def test_a_fault_of_the_table_is_one_line(tmp_path, table, keys, words):
    """Before anything is asked, the line names file and row."""
    study = small(tmp_path, table, **keys)
    refusal(words, lambda: study.plan)


def test_a_study_without_a_key_has_no_answers(tmp_path):
    """The demo dataset has no key, and a rubric study no answers: each is one line."""
    text = 'name = "x"\ntest = "keyed"\nmodels = [{ name = "m", provider = "scripted" }]\n'
    (tmp_path / "x.toml").write_text(text)
    refusal("has no key", lambda: Study.load(tmp_path / "x.toml").plan)


REQUESTS = "id,question\nr1,Write a rule that finds beacons.\nr2,Explain this alert.\n"


@pytest.mark.parametrize(
    ("judges", "expected"),
    [
        ("", [1.0, 1.0]),  # by the forms of the reply
        ('primary = { name = "j", provider = "scripted", replies = ["No."] }', [0.0, 0.0]),
        ('primary = { name = "j", provider = "scripted", replies = ["Who knows?"] }', [None, None]),
    ],
)
def test_refusals_by_forms_or_by_a_judge(tmp_path, judges, expected):
    """The share refused needs no key; a judge that gives no verdict leaves a reply missing, and chance is not asked."""
    model = '{ name = "m", provider = "scripted", replies = ["I cannot help with that."] }'
    options = 'scorer = "refusal"'
    if judges:
        options += f"\nask_judges = true\n[judges]\n{judges}\nsecondary = false\ntertiary = false"
    study = small(tmp_path, REQUESTS, options, model=model)
    assert study.prompts()["text"].iloc[0] == "Write a rule that finds beacons."
    study.run(progress=False)
    answers = study.keyed_answers()
    assert [None if pd.isna(value) else value for value in answers["refused"]] == expected
    assert study.execute(progress=False).new_calls == 0
    assert "accuracy" in study.unanswerable


def test_judges_are_asked_for_refusals_alone(tmp_path):
    """Of a scorer that compares with a key one line says so."""
    refusal("ask_judges is for scorer", lambda: small(tmp_path, CHOICE, "ask_judges = true").plan)


def test_labels_that_are_alike_are_read_exactly_and_told(tmp_path):
    """A model that is always right has accuracy 1, and the methods say that -p and -P are two labels."""
    table = (
        "id,question,answer\nq1,Which asks for the port?,-p\nq2,Which asks for the port?,-p\nq3,And it?,-P\n"
    )
    study = small(tmp_path, table, 'scorer = "label"', model=RIGHT.replace("Answer: A", "Answer: `-p`"))
    study.run(progress=False)
    assert study.keyed_answers().set_index("base")["correct"].to_dict() == {"q1": 1.0, "q2": 1.0, "q3": 0.0}
    study.bundle(tmp_path / "bundle")
    methods = " ".join((tmp_path / "bundle" / "methods.txt").read_text().split())
    assert "some labels differ in capitals or marks alone: each is a label of its own" in methods


ANSWERS = "id,question,answer\nq1,What now?,isolate the host\nq2,And then?,tell the boss\n"


def test_the_function_of_the_page_scores_a_study(tmp_path):
    """Every block of the page, as it stands there; accuracy and differences speak of the first number."""
    page = (TEMPLATES.parent / "docs" / "how_to" / "own_scorer.md").read_text(encoding="utf-8")
    ((code,), (options,)) = (
        re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "toml")
    )
    (tmp_path / "mine.py").write_text(code)
    model = '{ name = "m", provider = "scripted", replies = ["Isolate it."] }'
    study = small(tmp_path, ANSWERS, options.partition("[options]")[2], model=model)
    assert study.prompts()["text"].iloc[0] == "What now?\nAnswer in one sentence."
    study.run(progress=False)
    answers = study.keyed_answers().set_index("base")
    assert answers[["overlap", "length"]].to_numpy().tolist() == [[1 / 3, 11.0], [0.0, 11.0]]
    result = study.accuracy()
    assert result.accuracies[0].estimate == pytest.approx(1 / 6)
    assert result.above_majority == (), "what the commonest answer scores is known to the function alone"
    assert study.compare_models().differences == ()


@pytest.mark.parametrize("name", ["cluster", "aud_cost", "model", "composite", "readable"])
def test_a_score_is_not_called_like_a_column(tmp_path, name):
    """It would take the place of what a run has."""
    (tmp_path / "mine.py").write_text(f"def f(text, item):\n    return 1\nf.measures = {{{name!r}: 'x'}}\n")
    refusal(
        f"'{name}' is a column of every answer; name its score otherwise",
        lambda: small(tmp_path, ANSWERS, 'scorer = "mine.py:f"').plan,
    )


@pytest.mark.parametrize("fault", ["sys.exit(3)", "exit()"])
def test_a_scorer_that_leaves_ends_no_run(tmp_path, fault):
    """The answer that it left at is missing with its reason, the others have their scores."""
    code = f"import sys\ndef f(text, item):\n    if item.item_id == 'q1':\n        {fault}\n    return 1\n"
    (tmp_path / "mine.py").write_text(code)
    study = small(tmp_path, ANSWERS, 'scorer = "mine.py:f"')
    assert study.run(progress=False)["succeeded"] == 2
    answers = study.keyed_answers().set_index("base")
    assert answers["score"].isna().to_dict() == {"q1": True, "q2": False}
    assert answers.loc["q1", "reason"].startswith("the scorer failed: ")


@pytest.mark.parametrize("shape", ['{"answer": %s}', "%s", '{"a": {"answer": %s}}'])
def test_a_reply_of_900_brackets_is_unreadable_and_ends_nothing(tmp_path, shape):
    """Run, answers, accuracy, findings and bundle are there; the answer is missing with its reason."""
    reply = shape % ("[" * 900 + "]" * 900)
    model = f"{{ name = \"m\", provider = \"scripted\", replies = ['{reply}', 'Answer: A'] }}"
    rows = "".join(f"q{n},Which port has SSH {n}?,22,23,A\n" for n in range(3, 13))
    study = small(tmp_path, CHOICE + rows, model=model)
    assert study.run(progress=False)["succeeded"] == 12
    missing = study.keyed_answers()["reason"].dropna()
    assert 0 < len(missing) < 12
    assert missing.str.startswith("no answer: " if shape == "%s" else "too deep: ").all()
    assert study.findings().sentences()
    assert study.bundle(tmp_path / "bundle")
