"""The comparison of hallucination judges from the command line: real server, real ledger, known judges."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from stub_server import Fault, StubServer

from toolkit.cli import MODES, main
from toolkit.errors import InputError
from toolkit.hallucination import compare_hallucination, comparison_requests
from toolkit.judges import hallucination as hallucination_prompts
from toolkit.judges.labelled import LabelledItem, some_items
from toolkit.study import Study

STUDY = """
name = "judged"
models = [{{ name = "scripted" }}]
output = "results/judged"
scenarios = ["CTI_ANALYSIS"]
[judges]
secondary = false
tertiary = false
[judges.primary]
name = "stub"
provider = "compatible"
base_url = "{url}"
usd_per_million_input = 1.0
usd_per_million_output = 2.0
{more}
"""
SECOND = '[judges.secondary]\nname = "stub-2"\nprovider = "compatible"\nmodel = "other"\n'
SECOND += 'base_url = "{url}"\nusd_per_million_input = 1.0\nusd_per_million_output = 2.0\n'


def items(count: int = 40) -> list[LabelledItem]:
    """Return items of which every second is hallucinated, and says so where only the test's judge looks."""
    return [
        LabelledItem(
            f"item-{n}",
            f"Which port does service {n} use?",
            f"Port {1000 + n}." + (" It was invented." if n % 2 else " It is documented."),
            hallucinated=bool(n % 2),
        )
        for n in range(count)
    ]


def write_items(folder: Path, given: list[LabelledItem]) -> Path:
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps(vars(item)) + "\n" for item in given))
    return path


def said_of(body: dict[str, Any], yes: bool) -> str:
    """Return yes or no in the form that the mode of a request asks for."""
    asked = json.dumps(body["messages"])
    if "Verdict" in asked:
        return f"I thought about it.\nVerdict: {'yes' if yes else 'no'}"
    return "yes" if yes else "no"


def perfect(body: dict[str, Any]) -> str:
    """Judge every item as its label says."""
    return said_of(body, "invented" in body["messages"][-1]["content"])


@pytest.fixture
def toolkit(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command line; returns exit code, standard output and standard error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def study_at(tmp_path: Path, store_folder: Path) -> Callable[..., Path]:
    """Write a study whose judge is a stub server."""

    def write(url: str, more: str = "", second: bool = False) -> Path:
        path = tmp_path / "judged.toml"
        text = STUDY.format(url=url, more=more + (SECOND.format(url=url) if second else ""))
        path.write_text(text.replace("secondary = false\n", "") if second else text)
        return path

    return write


def test_a_perfect_judge_is_measured_as_one(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path
) -> None:
    """Every rate is 1, every vote agrees, the cost is there; a second run asks nothing and says the same."""
    with StubServer(answer=perfect) as server:
        study, file = study_at(server.openai_url), write_items(tmp_path, items())
        arguments = ("hallucination", file, "--study", study, "--mode", "boolean", "--k", 3, "--json")
        code, out, _ = toolkit(*arguments, "--figures", tmp_path / "out")
        fields = json.loads(out)
        assert (code, server.count) == (0, 120)
        judge, majority, length = fields["rows"]
        found = {one["name"]: one["estimate"] for one in judge["estimates"]}
        assert {found[name] for name in ("accuracy", "sensitivity", "specificity", "F1")} == {1.0}
        assert found["Cohen's kappa with the label"] == found["Fleiss' kappa among the votes"] == 1.0
        assert judge["counts"]["tp"] == judge["counts"]["tn"] == 20
        bill = (server.input_tokens * 1.0 + server.output_tokens * 2.0) / 1e6
        assert judge["aud"] > bill  # an Australian dollar is less than one of the United States
        assert judge["aud_per_correct"] == pytest.approx(judge["aud"] / 40)
        assert (majority["judge"], length["judge"]) == ("always the majority", "length alone")
        assert {Path(path).suffix for path in fields["files"]} == {
            ".pdf",
            ".svg",
            ".png",
            ".csv",
            ".txt",
            ".tex",
        }
        assert all(Path(path).stat().st_size for path in fields["files"])
        again = toolkit(*arguments)
        assert (again[0], server.count) == (0, 120)
        assert json.loads(again[1])["rows"] == fields["rows"]


def test_a_judge_that_errs_is_measured_and_corrected_for(study_at: Callable[..., Path]) -> None:
    """Sensitivity .9 and specificity .7 by script: both lie in their intervals, and so does the true prevalence."""

    def errs(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        wrong = random.Random(text).random()  # by item, so that its votes agree
        return said_of(body, wrong < 0.9 if "invented" in text else wrong < 0.3)

    with StubServer(answer=errs) as server:
        study = Study.load(study_at(server.openai_url))
        labelled = items(200)
        found = compare_hallucination(study.plan, study.store, labelled, ("boolean",), 1, progress=False)
        one = found.decider()
        for name, truth in (("sensitivity", 0.9), ("specificity", 0.7)):
            rate = one.found.rate(name)
            assert rate.low <= truth <= rate.high
        assert one.agreement.estimate is None  # one vote an item agrees with nobody
        unlabelled = [
            LabelledItem(
                f"u{n}",
                f"What of {n}?",
                f"{n}." + (" It was invented." if n < 40 else ""),
                hallucinated=n < 40,
            )
            for n in range(200)
        ]
        judged = compare_hallucination(study.plan, study.store, unlabelled, ("boolean",), 1, progress=False)
        prevalence = found.prevalence(judged.deciders[0].decisions, "primary", "boolean")
        assert prevalence.corrected.low <= 0.2 <= prevalence.corrected.high
        assert prevalence.apparent.estimate > 0.3
        study.store.close()


def test_every_judge_in_every_mode_has_a_row(study_at: Callable[..., Path]) -> None:
    """Two judges and four modes are eight rows, 28 + 16 comparisons, and verdicts that can be looked at."""
    with StubServer(
        answer=lambda body: "0.8" if "between 0" in json.dumps(body) else perfect(body)
    ) as server:
        study = Study.load(study_at(server.openai_url, second=True))
        given = items(6)
        found = compare_hallucination(study.plan, study.store, given, MODES, 2, progress=False)
        assert server.count == 2 * 4 * 6 * 2 == len(comparison_requests(study.plan, given, MODES, 2))
        frame = found.to_frame()
        assert frame[["judge", "mode"]].head(8).to_records(index=False).tolist() == [
            (judge, mode) for judge in ("primary", "secondary") for mode in MODES
        ]
        assert frame["n"].tolist() == [6] * 10
        assert len(found.contrasts) == len(found.contrasts_frame()) == 28 + 16
        verdicts = found.verdicts_frame()
        assert len(verdicts) == 48
        assert set(verdicts.loc[verdicts["mode"] == "cot", "correct"]) == {True}
        with pytest.raises(InputError, match="4 judges and modes fit 'primary'"):
            found.prevalence([True], "primary")
        study.store.close()


def test_what_is_missing_is_missing_and_never_a_no(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path
) -> None:
    """Unreadable replies leave items undecided; a vote without a reply is said, and asked again by the next run."""

    def half(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        return "I would rather not say." if "service 3 " in text else perfect(body)

    refused = Fault(status=400)
    with StubServer(
        answer=half, faults=lambda n, body: refused if "service 4 " in json.dumps(body) else None
    ) as server:
        study, file = study_at(server.openai_url), write_items(tmp_path, items(10))
        arguments = ("hallucination", file, "--study", study, "--mode", "boolean", "--k", 2, "--json")
        code, out, _ = toolkit(*arguments)
        fields = json.loads(out)
        row = fields["rows"][0]
        assert code == 1
        assert sum(fields["failures"].values()) == 2
        assert fields["unreadable"] == {"no verdict": 2}
        assert (row["counts"]["undecided_yes"], row["counts"]["undecided_no"], row["unreadable"]) == (1, 1, 4)
        found = {one["name"]: one for one in row["estimates"]}
        assert (found["accuracy"]["estimate"], found["accuracy"]["missing"]) == (1.0, 2)
        assert found["accuracy, undecided counted as wrong"]["estimate"] == 0.8
        server.faults, asked = (lambda n, body: None), server.count
        code, out, _ = toolkit(*arguments)
        assert (code, server.count) == (0, asked + 2)
        assert "\nno vote   2 x no verdict\n" in toolkit(*arguments[:-1])[1] + "\n"
        assert json.loads(out)["rows"][0]["counts"]["undecided_no"] == 0


def test_a_reached_budget_leaves_what_was_judged(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path
) -> None:
    """Exit code 3, the items not asked about are counted apart, and a larger budget goes on without asking again."""
    with StubServer(answer=perfect) as server:
        study, file = study_at(server.openai_url, "[budget]\naud = 0.006\n"), write_items(tmp_path, items(40))
        arguments = ("hallucination", file, "--study", study, "--mode", "boolean", "--k", 2, "--json")
        code, out, _ = toolkit(*arguments)
        fields, asked = json.loads(out), server.count
        assert code == 3
        assert "budget" in fields["budget"]
        row = fields["rows"][0]
        assert 0 < asked < 80
        assert row["unasked"] == 40 - sum(row["counts"].values()) > 0
        assert row["counts"]["undecided_yes"] == row["counts"]["undecided_no"] == 0
        study.write_text(study.read_text().replace("aud = 0.006", "aud = 2.0"))
        code, out, _ = toolkit(*arguments)
        assert (code, server.count) == (0, 80)
        assert json.loads(out)["rows"][0]["counts"]["tp"] == 20


def test_cost_is_confirmed_first(toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path) -> None:
    """What may cost more than budget.confirm_above_aud does not start without --yes."""
    with StubServer(answer=perfect) as server:
        study = study_at(server.openai_url, "[budget]\nconfirm_above_aud = 0.0001\n")
        file = write_items(tmp_path, items(4))
        arguments = ("hallucination", file, "--study", study, "--mode", "boolean", "--k", 1)
        code, out, err = toolkit(*arguments)
        assert (code, out, server.count) == (2, "", 0)
        assert "confirm_above_aud" in err
        assert "--yes" in err
        code, out, _ = toolkit(*arguments, "--yes")
        assert (code, server.count) == (0, 4)
        assert "length alone" in out
        assert toolkit(*arguments)[0] == 0  # all is paid for, so nothing is left to confirm


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda item: vars(item) | {"hallucinated": None}, "have no label, first 'item-0'"),
        (lambda item: vars(item) | {"item_id": "same"}, "same"),
    ],
)
def test_items_that_cannot_be_compared_are_one_line(
    toolkit: Callable, study_file: Callable[..., Path], tmp_path: Path, change: Callable, says: str
) -> None:
    """No label, or one name twice: refused before anything is asked."""
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(change(item)) + "\n" for item in items(4)))
    code, out, err = toolkit("hallucination", path, "--study", study_file())
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_study_without_judges_is_refused(
    toolkit: Callable, study_file: Callable[..., Path], tmp_path: Path
) -> None:
    """There is nobody to compare, and the line says what to do."""
    study = study_file()
    text = study.read_text()
    for role in ("primary", "secondary", "tertiary"):
        text = text.replace(f"{role} = {{ name", f"{role} = false\n# {{ name")
    study.write_text(text)
    code, _, err = toolkit("hallucination", "security", "--study", study)
    assert code == 2
    assert "has no judges" in err


@pytest.mark.parametrize("share", [4, 5, 10])
def test_a_limit_keeps_the_prevalence_of_the_file_and_grows(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path, share: int
) -> None:
    """Every 4th, 5th or 10th item is hallucinated, in a part as in the file; a larger part asks only what is new."""
    given = [
        LabelledItem(
            f"i{n}",
            f"What of {n}?",
            "It was invented." if n % share == 0 else f"It is {n}.",
            hallucinated=n % share == 0,
        )
        for n in range(120)
    ]
    with StubServer(answer=perfect) as server:
        study, file = study_at(server.openai_url), write_items(tmp_path, given)
        arguments = ("hallucination", file, "--study", study, "--mode", "boolean", "--k", 1)
        for limit in (20, 40):
            code, out, _ = toolkit(*arguments, "--limit", limit, "--json")
            fields = json.loads(out)
            assert (code, server.count, fields["items"]) == (0, limit, limit)
            assert fields["prevalence"] == pytest.approx(1 / share, abs=0.5 / limit)
            assert fields["hallucinated"] == fields["rows"][0]["counts"]["tp"]
        assert f"(prevalence {fields['prevalence']:.3f})" in toolkit(*arguments, "--limit", 40)[1]
    assert some_items(given, None, 1) == some_items(given, 10_000, 1) == tuple(given)
    assert some_items(given, 10, seed=2) != some_items(given, 10, seed=1)


def test_answers_about_one_document_are_one_cluster_in_every_interval(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path
) -> None:
    """Each answer four times under its document knows no more than once: no interval shrinks, no p value falls."""

    def errs(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        wrong = random.Random(text.split("service ")[1].split()[0]).random() < 0.3
        return said_of(body, ("invented" in text) != wrong)

    once = [
        LabelledItem(
            item.item_id,
            item.question,
            item.answer,
            documents=f"About service {n} .",
            hallucinated=item.hallucinated,
        )
        for n, item in enumerate(items(40))
    ]
    often = [replace(one, item_id=f"{one.item_id}-{copy}") for one in once for copy in range(4)]
    with StubServer(answer=errs) as server:
        study = study_at(server.openai_url)
        said = []
        for given in (once, often):
            code, out, _ = toolkit(
                "hallucination",
                write_items(tmp_path, given),
                "--study",
                study,
                "--mode",
                "boolean",
                "--k",
                1,
                "--json",
            )
            assert code == 0
            said.append(json.loads(out))
    narrow, wide = ({one["name"]: one for one in found["rows"][0]["estimates"]} for found in said)
    for name in ("accuracy", "F1", "precision", "Cohen's kappa with the label"):
        before, after = narrow[name], wide[name]
        assert after["estimate"] == pytest.approx(before["estimate"])
        assert after["high"] - after["low"] >= 0.95 * (before["high"] - before["low"]), name
        assert after["n"]["bases"] <= 40
    length = said[1]["rows"][2]["estimates"][-1]
    assert (length["name"], length["n"]["bases"]) == ("AUC", 40)
    for before, after in zip(said[0]["contrasts"], said[1]["contrasts"], strict=True):
        assert after["p_value"] >= 0.9 * before["p_value"]
        assert after["high"] - after["low"] >= 0.95 * (before["high"] - before["low"])


def test_the_template_fails_with_the_words_of_the_provider(
    toolkit: Callable, study_at: Callable[..., Path], tmp_path: Path
) -> None:
    """Calls that failed end the notebook as failed, so that a batch asks again; nothing is drawn from nothing."""
    import papermill

    template = Path(__file__).parent.parent / "templates" / "hallucination.ipynb"
    refused = Fault(status=400, body={"error": {"message": "this model is on holiday"}})
    with StubServer(answer=perfect, faults=lambda n, body: refused) as server:
        parameters = {"study": str(study_at(server.openai_url)), "k": 1, "limit": 4, "modes": ["boolean"]}
        with pytest.raises(papermill.PapermillExecutionError, match=r"4 of 4 votes failed.*on holiday"):
            papermill.execute_notebook(
                template, tmp_path / "out.ipynb", parameters, engine_name="toolkit", progress_bar=False
            )


def test_the_command_knows_every_mode() -> None:
    """The modes are spelled out in the command, so that help needs no import; they are those that there are."""
    assert MODES == hallucination_prompts.MODES


def test_no_item_and_no_mode_are_refused(study_file: Callable[..., Path]) -> None:
    """An empty comparison is a mistake, not a table of nothing."""
    study = Study.load(study_file())
    with pytest.raises(InputError, match="no item"):
        compare_hallucination(study.plan, study.store, [], progress=False)
    with pytest.raises(InputError, match="no mode"):
        compare_hallucination(study.plan, study.store, items(2), (), progress=False)
    study.store.close()
