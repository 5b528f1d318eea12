"""A run with all that is known of it, opened from the store; and the page for the supervisor, which cannot act."""

import base64
import hashlib
import json
import re
from dataclasses import fields, is_dataclass, replace
from html.parser import HTMLParser

import pytest
from hostile_study import REPLY, hostile_study
from pages import page_of, unpacked
from refusals import refusal

from toolkit.store import embedded
from toolkit.study import Study
from toolkit.viewer import page as page_module
from toolkit.viewer.model import HIDDEN, open_runs, search_texts, with_people
from toolkit.viewer.page import page_html, rows, run_html, state

TAGS = "article div span h2 h3 h4 p b em strong code pre mark del ul li hr "
TAGS += "table thead tbody tr th td br details summary"
OURS = set(TAGS.split())
OF_THE_PAGE = {"html", "head", "meta", "title", "style", "body", "main", "noscript", "script"}
NAMES = "class tabindex open aria-label role data-lm-suppress-shortcuts data-find start scope dir"
ATTRIBUTES = set(NAMES.split())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A finished study of four runs whose texts try to act; two judges answer and one cannot be read."""
    with hostile_study(tmp_path_factory.mktemp("open")) as loaded:
        yield loaded


@pytest.fixture
def path(study):
    """The page of all runs, with two side by side."""
    runs = study.runs()
    pair = tuple(runs["run_id"][[0, 3]])
    return page_of(study, runs, pair=pair, chosen="<i>all</i>")


def opened(study, place=0):
    """Return one run of the study."""
    runs = study.runs()
    (run,) = open_runs(study.plan, study.store, runs, [runs["run_id"].iloc[place]])
    return run


@pytest.fixture
def changed(study):
    """Change the first run in the store for one test."""
    collection = study.store.database["runs"]
    before = collection.find_one({"run_id": study.runs()["run_id"].iloc[0]})
    yield lambda **fields: collection.update_one({"_id": before["_id"]}, {"$set": fields})
    collection.replace_one({"_id": before["_id"]}, before)


def test_a_run_has_its_prompt_its_reply_its_judges_and_their_calls(study):
    """The texts are those of the store, and every call of every judge is there, repairs too."""
    run = next(run for run in (opened(study, place) for place in range(4)) if run.reply == REPLY)
    assert run.prompt == study.prompt(run.facts["prompt_id"])
    assert run.reply == study.reply(run.run_id)
    assert [judgement.label for judgement, _ in run.judges] == ["primary", "secondary", "tertiary"]
    assert [len(calls) for _, calls in run.judges] == [1, 1, 2]
    assert json.loads(run.judges[0][1][0]["text"])["clarity"] == 3.5
    assert run.judges[2][0].reason.startswith("prose")
    assert run.call["attempts"][0]["outcome"] == "answered"
    assert run.call["_id"] == run.facts["call_id"]
    assert len(run.marked) == 5
    assert run.marked_as == "focus sentences (the judges were not told of them)"
    # Prompt, reply twice, and four calls of judges, each in the direction of its script; an empty box says why.
    assert run_html(run).count("dir='auto' class='tv-text") == 7
    assert "nothing but white space" in run_html(replace(run, reply=" \n", marked=()))


def test_runs_come_in_the_order_of_the_ids_and_are_found_by_their_texts(study):
    """None for none; one that is not there is named; a search looks in ids, prompts and replies."""
    runs = study.runs()
    ids = runs["run_id"].tolist()[::-1]
    for some in (ids, []):
        assert [run.run_id for run in open_runs(study.plan, study.store, runs, some)] == some
    refusal(
        r"run '01X': not in study hostile; study.runs\(\) lists",
        open_runs,
        study.plan,
        study.store,
        runs,
        ["01X"],
    )
    texts = search_texts(study.plan, study.store, runs)
    assert set(texts) == set(ids)
    first = runs.iloc[0]
    reply = study.reply(ids[-1]).casefold()
    for part in (first["run_id"].casefold(), first["prompt_id"], "nobody knows", reply):
        assert part in texts[first["run_id"]]


def test_a_failed_run_says_why_and_has_no_number(study, changed):
    """A failure is missing, never zero."""
    changed(status="failed", failure="timeout: <b>60 s</b>", output_blob_id=None, tokens=None)
    run = opened(study)
    assert (run.reply, run.judges, run.marked) == (None, (), ())
    shown = run_html(run)
    assert "No reply: timeout: &lt;b&gt;60 s&lt;/b&gt;" in shown
    assert "<b>Composite</b> –" in shown
    assert state(run.facts) == "failed"
    assert "data-find='reply'" not in shown


def test_of_a_run_that_is_left_out_no_judgement_is_shown(study, changed):
    """What judges said of a reply that counts for nothing would be taken for a score."""
    changed(defect="truncated", reply_policy="exclude")
    run = opened(study)
    assert run.reply is not None
    assert run.judges == ()
    assert "is not whole (truncated) and is left out" in run_html(run)
    assert state(run.facts) == "truncated"
    changed(defect="truncated", reply_policy="keep")
    assert len(opened(study).judges) == 3
    assert "the study counts it all the same" in run_html(opened(study))


@pytest.mark.parametrize(
    ("mode", "marked_as"),
    [
        ("listed", ""),
        ("per_sentence", "segments in which a judge found a fault"),
    ],
)
def test_what_is_marked_is_what_the_judges_were_not_told(tmp_path, mode, marked_as):
    """Segments with a fault, and no sentence that was named to them; every call of a judge per sentence is found."""
    path = tmp_path / "small.toml"
    path.write_text(
        f'name = "small"\noutput = "results/small"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = ["S"]\n'
        f'[bias_controls]\nfsp_enabled = true\nfsp_mode = "{mode}"\n'
        '[[models]]\nname = "scripted"\nreplies = ["Block the port. Then tell the owner.\\n\\n- Keep the log."]\n'
        + "".join(
            f'[judges.{role}]\nname = "judge-{role}"\nprovider = "scripted"\nstructured = true\n'
            for role in ("primary", "secondary", "tertiary")
        )
    )
    study = Study.load(path)
    try:
        study.execute(progress=False)
        run = opened(study)
        assert run.marked_as == marked_as
        found = [f for judgement, _ in run.judges for f in (judgement.detail or {}).get("findings", ())]
        if mode == "per_sentence":
            assert all(len(calls) == 4 for _, calls in run.judges)
            assert set(run.marked) == {(f["start"], f["end"]) for f in found}
            assert found[0]["what"] in run_html(run)
        else:
            assert (run.marked, "<mark>" in run_html(run)) == ((), False)
        study.store.close()
    finally:
        embedded.stop(study.plan.store_folder)


class Tags(HTMLParser):
    """Collects every tag with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        """Note a tag."""
        self.found.append((tag, dict(attrs)))


def test_every_tag_is_ours_and_none_loads_anything(path, study):
    """One script, which the policy lets run and nothing else; what is packed has no link at all."""
    text = path.read_text()
    tags = Tags(text).found
    assert {tag for tag, _ in tags} == OF_THE_PAGE
    kinds = [attrs.get("type") for tag, attrs in tags if tag == "script"]
    assert kinds == ["text/plain", "text/plain", "module"]
    (script,) = re.findall("<script type='module'>(.*?)</script>", text, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    assert text.index(policy) < text.index("<style>")
    data, runs = unpacked(path)
    assert data["rows"]["run"] == study.runs()["run_id"].tolist()
    assert (data["name"], data["note"]) == ("hostile", "Scripted models answer and judge.")
    assert data["chosen"] == "<i>all</i>"  # set as text
    for html in runs:
        inner = Tags(html).found
        assert {tag for tag, _ in inner} <= OURS
        assert {name for _, attrs in inner for name in attrs} <= ATTRIBUTES
        assert "<b>human:anna, version 1, from a file" in html


def test_the_same_runs_give_the_same_bytes_and_another_choice_another_file(study, tmp_path):
    """Nothing of the moment or the machine is in it; a pair may be of runs that were not chosen; none are refused."""
    runs = study.runs()
    one = page_of(study, runs.iloc[:2])
    first = one.read_bytes()
    assert page_of(study, runs.iloc[:2]) == one
    assert one.read_bytes() == first
    assert str(study.path.parent) not in json.dumps(unpacked(one))
    pair = tuple(runs["run_id"][:2])
    fewer = page_of(study, runs.iloc[:1])
    assert len({one, fewer, page_of(study, runs.iloc[:2], pair=pair)}) == 3
    pair = tuple(runs["run_id"][2:4])
    path = page_of(study, runs.iloc[:1], path=tmp_path / "p.html", pair=pair)
    data, parts = unpacked(path)
    assert data["rows"]["run"] == [runs["run_id"].iloc[0], *pair]
    assert len(parts) == 3
    refusal("page of 0 runs", page_of, study, runs.iloc[:0])
    path.write_text("a page of somebody")
    refusal(r"p\.html: is there, and none of this kind", page_of, study, runs, path=path)
    assert path.read_text() == "a page of somebody"


def test_a_page_of_many_parts_has_every_run_once(study, monkeypatch):
    """In the order of the table, whatever a part holds."""
    monkeypatch.setattr(page_module, "PART", 3)
    runs = study.runs()
    data, parts = unpacked(page_of(study, runs))
    assert data["part"] == 3
    assert [run_id in html for run_id, html in zip(runs["run_id"], parts, strict=True)] == [True] * 4


ATTACK = "'\"></td></article><img src=x onerror=1><script>1</script>\u202e"


def spoilt(value):
    """Return an object with the attack for every text in it, however deep."""
    if isinstance(value, str):
        return ATTACK
    if isinstance(value, dict):
        return {name: spoilt(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(map(spoilt, value))
    if is_dataclass(value):
        kept = {"run_id", "scores", "version"}
        names = [field.name for field in fields(value) if field.name not in kept and field.init]
        return replace(value, **{name: spoilt(getattr(value, name)) for name in names})
    return value


def test_no_field_of_a_run_can_act_whatever_stands_in_it(study):
    """Names of models, prompts, judges and raters, reasons, failures, statuses, notes: an attack in each is text."""
    frame = with_people(study.plan, study.store, study.runs())
    runs = [spoilt(run) for run in open_runs(study.plan, study.store, frame, frame["run_id"].tolist())]
    failed = [replace(run, facts={**run.facts, "status": "failed", "failure": ATTACK}) for run in runs[:1]]
    hidden = [replace(run, hidden_for=ATTACK, judges=(), people=()) for run in runs[1:2]]
    shown = [*failed, *hidden, *runs[2:]]
    texts = ["prompt_id", "base", "scenario", "model", "level", "status", "defect", HIDDEN]
    table = rows(frame.assign(**dict.fromkeys(texts, ATTACK)))
    page = page_html({"name": ATTACK, "rows": table}, iter([shown]))
    assert {tag for tag, _ in Tags(page).found} == OF_THE_PAGE
    assert "\u202e" not in json.dumps(table, ensure_ascii=False)
    text = "".join(map(run_html, shown))
    tags = Tags(text).found
    assert {tag for tag, _ in tags} <= OURS
    assert not any(name.startswith("on") for _, attrs in tags for name in attrs)
    assert "\u202e" not in text
    assert text.count("&lt;img src=x onerror=1&gt;") > 50
