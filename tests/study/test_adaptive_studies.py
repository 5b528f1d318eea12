"""An adaptive study: whole bases in rounds until the models are told apart, the same rounds after a kill."""

import pytest
from stub_server import Fault

from toolkit.adaptive import rounds as adaptive
from toolkit.errors import StudyError
from toolkit.study import Study

pytestmark = pytest.mark.usefixtures("store_folder")

ADAPTIVE = """
name = "adaptive"
dataset = "rq1_controlled"
scenarios = ["{scenario}"]
models = [{{ name = "one", provider = "scripted" }}, {{ name = "two", provider = "scripted" }}]
seed = 3
output = "results/adaptive"
{selection}
[judges]
primary = {{ name = "judge-a", provider = "scripted" }}
secondary = {{ name = "judge-b", provider = "scripted" }}
tertiary = {{ name = "judge-c", provider = "scripted" }}
"""
NARROW = 'selection = "adaptive"\ntarget_width = {}'


def study_in(folder, selection, scenario="SOC_INCIDENT"):
    folder.mkdir()
    path = folder / "study.toml"
    path.write_text(ADAPTIVE.format(selection=selection, scenario=scenario))
    return Study.load(path)


def bases(study):
    """Return the bases in the order in which they were first asked."""
    runs = study.runs().sort_values("created_at")
    return list(dict.fromkeys(runs["base"]))


def test_rounds_end_at_the_width_and_go_on_the_same_after_a_kill(tmp_path, monkeypatch):
    """Fewer bases than there are, all models on each, at the width; stopped between rounds it asks what is missing."""
    whole = study_in(tmp_path / "whole", NARROW.format(0.3))
    outcome = whole.execute(progress=False)
    found, asked = whole.sequential(), set(bases(whole))
    assert found.stop
    assert found.width <= 0.3
    assert 12 <= len(asked) < 50
    assert outcome.succeeded == outcome.planned == len(asked) * 3 * 2
    assert outcome.new_calls == outcome.planned * 4
    assert {*whole.runs().groupby("base").size()} == {6}
    again = whole.execute(progress=False)
    assert (again.new_calls, again.planned) == (0, outcome.planned)
    assert whole.execute(progress=False, replay=True).planned == outcome.planned

    stopped = study_in(tmp_path / "stopped", NARROW.format(0.3))
    run_plan, rounds = adaptive.run_plan, iter(range(3))

    def killed(*args, **kwargs):
        if next(rounds, None) is None:
            raise KeyboardInterrupt
        return run_plan(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(adaptive, "run_plan", killed)
        with pytest.raises(KeyboardInterrupt):
            stopped.execute(progress=False)
    assert len(bases(stopped)) == 3 * adaptive.ROUND
    assert stopped.execute(progress=False).new_calls == outcome.new_calls - 3 * adaptive.ROUND * 6 * 4
    assert set(bases(stopped)) == asked


def test_a_width_that_is_never_reached_asks_everything(tmp_path):
    """The whole bank has no error left: its interval is a point."""
    study = study_in(tmp_path / "wide", NARROW.format(0.001), scenario="CTI_ANALYSIS")
    outcome = study.execute(progress=False)
    assert outcome.planned == 20 * 3 * 2
    assert study.sequential().width == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("selection", ['selection = "adaptive"', "target_width = 0.3", NARROW.format(0)])
def test_width_and_selection_go_together(tmp_path, selection):
    """Bad input is one line that names the key."""
    with pytest.raises(StudyError, match="target_width"):
        study_in(tmp_path / "bad", selection)


def test_a_provider_that_is_down_ends_the_rounds(server, tmp_path):
    """Nothing is learned from a round without a score, so no further base is asked for nothing."""
    server.faults = lambda number, body: Fault(status=401)
    own = f'provider = "openai", base_url = "{server.openai_url}"'
    priced = f"{own}, usd_per_million_input = 1.0, usd_per_million_output = 1.0"
    study = study_in(tmp_path / "down", NARROW.format(0.3))
    text = study.path.read_text().replace('"two", provider = "scripted"', f'"two", {priced}')
    text = text.replace('"scripted" }', '"scripted", planted = {} }')
    study.path.write_text(text)
    study = Study.load(study.path)
    outcome = study.execute(progress=False)
    assert (outcome.planned, outcome.failed) == (adaptive.ROUND * 6, adaptive.ROUND * 3)
