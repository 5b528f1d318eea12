"""The local model really answers and judges: through the engine and both clients, in every mode."""

from contextlib import closing

import pytest
from places import TEMPLATES

from toolkit.hallucination.comparison import compare_hallucination, hallucination_tasks
from toolkit.hallucination.labelled import LabelledItem
from toolkit.hallucination.votes import MODES
from toolkit.models.local import demo_gguf, start_local_server
from toolkit.study import Study

pytestmark = pytest.mark.model

ITEMS = (
    LabelledItem("open", "Which port does SSH use?", "Port 22.", "TCP port 22.", hallucinated=False),
    LabelledItem(
        "closed",
        "Which host was isolated?",
        "WS-99 was isolated.",
        documents="Alert 7: host WS-12 was isolated.",
        hallucinated=True,
    ),
)


@pytest.fixture(scope="module")
def address():
    """The address of a local server of the demo weights."""
    with closing(start_local_server(demo_gguf(), "smollm2-135m", 8192)) as server:
        yield server.url


def judged_by(folder, judge, *, top="", judges="", max_tokens=120):
    """Return a study of one run with a scripted reply of two sentences and one local judge."""
    path = folder / "judged.toml"
    replies = '["Block 192.0.2.7 at the firewall. Keep the logs."]'
    path.write_text(
        f'name = "judged"\noutput = "results/judged"\nscenarios = ["CTI_ANALYSIS"]\nlength_bins = ["S"]\n'
        f'models = [{{ name = "m", provider = "scripted", replies = {replies} }}]\n{top}\n'
        f'[judges]\nrubric = "{TEMPLATES / "rubrics" / "demo.toml"}"\nmax_tokens = {max_tokens}\n{judges}\n'
        f'primary = {{ name = "smollm2-135m", {judge} }}\n'
        "secondary = false\ntertiary = false\n"
    )
    return Study.load(path)


def through(client, address):
    """Return how a study names the local server behind one of the two clients."""
    price = "usd_per_million_input = 0.0, usd_per_million_output = 0.0"
    if client == "anthropic":
        return f'provider = "anthropic", base_url = "{address}", {price}'
    return (
        f'provider = "compatible", base_url = "{address}/v1", structured = true, logprobs = true, '
        f"seed_supported = true, {price}"
    )


@pytest.mark.parametrize("client", ["openai", "anthropic"])
@pytest.mark.parametrize("mode", ["off", "listed", "per_sentence"])
def test_through_both_clients_every_reply_is_a_judgement_or_missing_with_its_reason(
    tmp_path, store_folder, address, mode, client
):
    """Through OpenAI's a schema holds the small model to seven scores; through the other it writes prose."""
    top = "" if mode == "off" else f'[bias_controls]\nfsp_enabled = true\nfsp_mode = "{mode}"'
    holds = client == "openai"
    asks_expected = holds and mode == "off"
    # A small model finds up to eight faults in a sentence, each with its words.
    long = 40 if not holds else 1000 if mode == "per_sentence" else 120
    judges = "expected_scores = true" if asks_expected else ""
    with judged_by(tmp_path, through(client, address), top=top, judges=judges, max_tokens=long) as study:
        study.execute(progress=False, limit=1)
        judgements = study.judgements()
        (kept,) = study.store.database["annotations"].find()
    assert len(judgements) == 1
    assert (judgements["composite"].notna() != judgements["failure"].notna()).all()
    assert (
        holds or not (judgements["composite"] == 0).any()
    )  # prose is no zero; a schema lets the model give some
    assert judgements["output_tokens"].gt(0).all()
    assert set(judgements["focus"]) == {mode}
    if holds:
        assert judgements["composite"].between(0, 5).all(), judgements["failure"].tolist()
        assert mode != "per_sentence" or kept["detail"]["segments"] == 2
    if asks_expected:
        assert judgements["expected_composite"].between(0, 5).all()
        assert judgements["expected_mass"].between(0, 1, inclusive="right").all()


@pytest.mark.parametrize("client", ["openai", "anthropic"])
def test_every_way_of_asking_for_hallucinations_ends_in_a_verdict_or_a_reason(
    tmp_path, store_folder, address, client
):
    """Open and closed domain, each mode once: real replies, readable or not."""
    with judged_by(tmp_path, through(client, address), max_tokens=60) as study:
        tasks = hallucination_tasks(study.plan, ITEMS, MODES)
        found = compare_hallucination(study.plan, study.store, tasks, k=1, progress=False)
    verdicts = found.verdicts_frame()
    assert len(verdicts) == len(ITEMS) * len(MODES)
    unread = verdicts["votes"].map(lambda votes: votes == (None,))
    assert verdicts.loc[unread, "metric"].isna().all()
    assert verdicts.loc[~unread, "metric"].between(0, 1).all()
    assert (verdicts["decision"].isna() == verdicts["reason"].notna()).all()


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("rubric", ["default", "seed-v1"])
def test_the_local_model_answers_and_judges(tmp_path, store_folder, rubric):
    """One short prompt, three judges: every judgement is a score or a reason, and tokens are the server's own."""
    text = (TEMPLATES / "demo.toml").read_text(encoding="utf-8")
    text = text.replace("../results/demo", "results/demo").replace("rubrics/demo.toml", rubric)
    path = tmp_path / "local.toml"
    path.write_text(
        text.replace("[sampling]", 'scenarios = ["CTI_ANALYSIS"]\nlength_bins = ["S"]\n[sampling]')
    )
    study = Study.load(path)
    outcome = study.execute(progress=False, limit=1)
    runs, judgements, status = study.runs(), study.judgements(), study.status()
    captions = [
        path.read_text()
        for path in study.figures(only=["quality_by_length"])
        if path.name == "quality_by_length.txt"
    ]
    study.store.close()
    assert (outcome.succeeded, outcome.failed, len(judgements)) == (1, 0, 3)
    assert not runs["tokens_estimated"].any()
    # 64 tokens are not enough for a whole answer, and every caption says so.
    assert status["finish_reasons"] == {"length": 1}
    assert all("1 of 1 answer counted though truncated." in caption for caption in captions)
    assert (runs["output_tokens"] > 0).all()
    assert (runs["latency_ms"] > 0).all()
    assert (judgements["composite"].notna() != judgements["failure"].notna()).all()
    assert judgements["composite"].dropna().between(0, 5).all()
