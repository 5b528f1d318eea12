"""Reasoning models: efforts are methods of their own, thoughts are no answer, and reasoning is paid for once."""

import contextlib
import json

import pytest
from cases import cases
from refusals import refusal
from stub_server import StubServer
from stub_study import REASONED, is_judge, stub_study

from toolkit.errors import StudyError
from toolkit.models.catalogue import model_spec
from toolkit.models.entries import ModelEntry
from toolkit.models.prices import price_of
from toolkit.models.registry import open_model
from toolkit.runs.estimate import experience_of
from toolkit.store.documents import Run
from toolkit.study import Study
from toolkit.viewer.model import open_runs, with_people

CASES = cases(__file__)

EFFORTS = {"none": 0, "low": 40, "high": 400}
SECRET = "The attacker is the auditor"


def entries(server):
    """Write one model at three efforts."""
    served = f'provider = "compatible", base_url = "{server.openai_url}", usd_per_million_input = 1.0, '
    served += "usd_per_million_output = 2.0"
    rows = (f'{{ name = "thinker", {served}, reasoning_effort = "{effort}" }}' for effort in EFFORTS)
    return f"models = [{', '.join(rows)}]"


@contextlib.contextmanager
def executed_at_efforts(folder, factor=""):
    """A study of one reasoning server at three efforts, of a model each or the levels of a factor; asked and judged."""

    def answer(body):
        if is_judge(body):
            return REASONED
        thought = "" if body["reasoning_effort"] == "none" else f"<think>{SECRET}. Really?</think>\n\n"
        return f"{thought}Isolate the host. {str(body['messages'])[-40:]}"

    def change(reply):
        asked = server.seen[-1].body
        tokens = EFFORTS.get(asked.get("reasoning_effort", ""), 0)
        reply["usage"] = {
            "prompt_tokens": 400,
            "completion_tokens": 50 + tokens,
            "completion_tokens_details": {"reasoning_tokens": tokens},
        }
        return reply

    with StubServer(answer=answer, change=change) as server:
        runs = "concurrency = 1\nrepeats = 3"
        path = stub_study(folder, server.openai_url, bins='["S"]', runs=runs, more=factor)
        if not factor:
            lines = path.read_text().splitlines()
            path.write_text(
                "\n".join(entries(server) if line.startswith("models") else line for line in lines)
            )
        with Study.load(path) as study:
            study.execute(progress=False)
            yield study, server


def efforts_of(server):
    """Return the effort of each request to a model under test."""
    return [call.body.get("reasoning_effort") for call in server.seen if not is_judge(call.body)]


@pytest.fixture(scope="module")
def reasoned(tmp_path_factory):
    with executed_at_efforts(tmp_path_factory.mktemp("reasoned")) as study_and_server:
        yield study_and_server


def test_one_model_at_three_efforts_is_three_methods(reasoned):
    """Label, frame column, estimate and comparison tell them apart; each effort is on the wire."""
    study, server = reasoned
    names = {f"thinker ({effort})" for effort in EFFORTS}
    runs = study.runs()
    assert set(runs["model"]) == names
    assert set(runs["reasoning_effort"]) == set(EFFORTS)
    assert names <= set(study.estimate().reset_index()["model"])
    assert len(study.compare_models().frame()) == 6  # three means and three differences
    sent = efforts_of(server)
    assert {effort: sent.count(effort) for effort in EFFORTS} == {
        effort: len(runs) // 3 for effort in EFFORTS
    }
    decided = study.deviations()
    assert decided.empty


def test_efforts_may_be_the_levels_of_a_factor(tmp_path):
    """Each is on the wire, in the record of its runs, and in what the next reply is expected to have."""
    with executed_at_efforts(tmp_path, CASES["factor"]) as (study, server):
        runs = study.runs()
        assert sorted(efforts_of(server)) == sorted(runs["reasoning_effort"])
        assert [*runs["level"]] == [*runs["reasoning_effort"]]
        assert {(run.level, run.prompt_length_bin) for run in study.store.objects(Run)} == {
            (effort, None) for effort in EFFORTS
        }
        experience = experience_of(study.plan, study.store, study.plan.models["answerer"], "run")
        assert (experience.mean, experience.measured) == (pytest.approx(50 + 440 / 3), True)


def test_reasoning_is_paid_for_once_and_shown(reasoned):
    """Cost to the cent is that of prompt and completion tokens, which hold the reasoning already."""
    study, _ = reasoned
    aud = price_of(study.plan.models["thinker (low)"]).aud_per_usd
    for effort, tokens in EFFORTS.items():
        rows = study.runs(model=f"thinker ({effort})")
        assert set(rows["aud_cost"].round(12)) == {round((400 * 1 + (50 + tokens) * 2) / 1e6 * aud, 12)}
        assert set(rows["output_tokens"]) == {50 + tokens}
        counted = rows["reasoning_tokens"].fillna(0)
        assert (counted >= tokens).all()
        assert (counted <= rows["output_tokens"]).all()
        experience = experience_of(study.plan, study.store, study.plan.models[f"thinker ({effort})"], "run")
        assert (experience.mean, experience.measured) == (50 + tokens, True)
    assert (study.frames().runs["output_tokens"] <= 50).all()  # the length of a reply is that of its text
    calls = study.calls(purpose="run")
    assert sorted(set(calls["reasoning_tokens"].dropna())) == [40, 400]


def test_thoughts_are_kept_raw_and_judged_nowhere(reasoned):
    """No judge reads them, no frame quotes them; the ledger has them, and the viewer shows them apart."""
    study, server = reasoned
    assert not any(SECRET in json.dumps(call.body) for call in server.seen if is_judge(call.body))
    replies = study.runs(replies=True)
    assert not replies["reply"].str.contains(SECRET).any()
    raw = list(study.store.database["calls"].find({"purpose": "run"}))
    assert sum(SECRET in call["text"] for call in raw) == 2 * len(raw) // 3
    runs = with_people(study.plan, study.store, study.runs())
    (opened,) = open_runs(
        study.plan, study.store, runs, [runs.loc[runs["model"] == "thinker (low)", "run_id"].iloc[0]]
    )
    assert opened.reply is not None
    assert opened.reply.startswith("Isolate the host.")
    assert SECRET in opened.thoughts


@pytest.mark.parametrize(("fields", "line"), CASES["refused"])
def test_what_a_model_refuses_is_refused_before_anything_is_sent(fields, line):
    """One line names model, key and what to write."""
    line = refusal(line, lambda: ModelEntry(**fields).spec, error=StudyError)
    assert fields["name"] in line
    assert "sk-12345678abc" not in line


def body(name, make_request, **fields):
    """Return what a model of the catalogue is sent."""
    spec = model_spec(name, **fields)
    temperature = 0.2 if spec.takes_sampling else None
    request = make_request(
        model=spec.model, provider=spec.provider, temperature=temperature, options=spec.options
    )
    environment = {spec.api_key_env: "k"} if spec.api_key_env else {}
    return open_model(spec, env=environment).body(request)


def test_each_provider_is_sent_its_own_form(make_request):
    """Effort, level, verbosity and extra stand where each documentation has them; sampling only where it is taken."""
    luna = body("gpt-6-luna", make_request, reasoning_effort="low", verbosity="high")
    assert (luna["reasoning_effort"], luna["verbosity"], "temperature" in luna) == ("low", "high", False)
    assert body("gpt-6-luna", make_request, reasoning_effort="none")["temperature"] == 0.2
    opus = body("claude-opus-5-5", make_request, reasoning_effort="max")
    assert (opus["output_config"], "temperature" in opus) == ({"effort": "max"}, False)
    argon = body("gemini-4-argon", make_request, thinking_level="low")
    assert argon["extra_body"] == {"google": {"thinking_config": {"thinking_level": "low"}}}
    served = {"provider": "compatible", "base_url": "http://127.0.0.1:1/v1"}
    extra = {"chat_template_kwargs": {"enable_thinking": False}}
    assert body("m", make_request, **served, extra=extra)["chat_template_kwargs"] == {
        "enable_thinking": False
    }
    assert body("qwen3.6-27b", make_request, reasoning_effort="none")["reasoning_effort"] == "none"
    assert body("mistral-medium-3.5", make_request, extra={"random_seed": 7})["random_seed"] == 7


def test_an_effort_for_all_models_is_that_of_each(tmp_path):
    """``[sampling]`` is for the models that do not say otherwise; a provider that takes none is refused."""
    path = tmp_path / "all.toml"
    models = 'models = ["gpt-6-luna", { name = "gpt-6-sol", reasoning_effort = "max" }'
    path.write_text(f'name = "all"\n{models}]\n[sampling]\nreasoning_effort = "low"\n')
    assert [*Study.load(path).plan.models] == ["gpt-6-luna (low)", "gpt-6-sol (max)"]
    path.write_text(f'name = "all"\n{models}, "smollm2-135m"]\n[sampling]\nreasoning_effort = "low"\n')
    refusal("local takes no reasoning_effort; leave it out", Study.load, path, error=StudyError)


@pytest.mark.parametrize(("models", "line"), CASES["levels_refused"])
def test_an_effort_of_a_level_is_checked_for_each_model(tmp_path, models, line):
    """What a model does not take is no level of it, and two efforts of a model may not become one."""
    path = tmp_path / "study.toml"
    path.write_text(CASES["own_effort"] + models)
    refusal(line, Study.load, path, error=StudyError)
