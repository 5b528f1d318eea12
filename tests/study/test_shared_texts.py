"""Bases that share a text are one independent unit, transitively: in every frame, interval, test and caption."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from methods_told import methods_of
from small_study import CTI_ONLY, STUDY, write_prompts

from toolkit import Study
from toolkit.cli import cli
from toolkit.prompts.dataset import load_dataset
from toolkit.stats.result import estimates_of
from toolkit.store import embedded

pytestmark = pytest.mark.usefixtures("no_pictures")

GROUPS = "independent groups"
SETTINGS = 'dataset = "mine.csv"\n[analysis]\nequivalence_margin = 0.25\n'


def with_texts_of(others):
    """The demo's prompts, some with the text of another; a blank at the end of M makes it no other text."""
    prompts = {prompt.prompt_id: prompt for prompt in load_dataset("demo").prompts}
    return [
        replace(one, text=prompts[others[name]].text + " \n" * name.endswith("_m")) if name in others else one
        for name, one in prompts.items()
    ]


def written(folder, prompts):
    """A study of these prompts."""
    write_prompts(folder / "mine.csv", prompts)
    path = folder / "small.toml"
    path.write_text(STUDY.format(settings=SETTINGS, judges="").replace(CTI_ONLY, ""))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a study in which prompts have the text of others; returns it and what the command said."""
    opened = []

    def made(others):
        path = written(tmp_path_factory.mktemp("shared"), with_texts_of(others))
        said = CliRunner().invoke(cli, ["run", str(path), "--yes"])
        assert said.exit_code == 0, said.output
        opened.append(Study.load(path))
        return opened[-1], said.output

    yield made
    for study in opened:
        study.store.close()
        embedded.stop(study.path.parent / "results" / ".store")


@pytest.fixture(scope="module")
def shared(run):
    """SOC 1 and 2 share S, 2 and 3 share L, all of CTI 1 is CTI 2: twelve bases in nine groups."""
    soc, cti = "academic_soc_00", "academic_cti_00"
    others = {f"{soc}2_s": f"{soc}1_s", f"{soc}3_l": f"{soc}2_l"}
    return run(others | {f"{cti}2_{length}": f"{cti}1_{length}" for length in "sml"})


def all_estimates(study):
    """Every estimate of every analysis, with its place."""
    found = {name: result for name, (_, result) in study.analyses().items()}
    found["agreement"] = (found["reliability"].krippendorff, found["reliability"].leniency)
    found |= {"profile": study.dimension_profile()}
    return [(f"{name} {place}", one) for name, result in found.items() for place, one in estimates_of(result)]


def test_frames_name_the_unit_whatever_is_filtered(shared):
    study, _ = shared
    runs = study.runs()
    clusters = runs.drop_duplicates("base").set_index("base")["cluster"].to_dict()
    soc, cti = "academic_soc_00", "academic_cti_00"
    together = {f"{soc}2": f"{soc}1", f"{soc}3": f"{soc}1", f"{cti}2": f"{cti}1"}
    assert clusters == {base: together.get(base, base) for base in clusters}
    for frame in (study.runs(level="M"), study.judgements(), study.dimensions()):
        assert set(zip(frame["base"], frame["cluster"], strict=True)) == set(clusters.items())
    assert (len(runs), runs["call_id"].nunique()) == (36, 32)


def test_every_estimate_counts_groups_and_no_base_twice(shared):
    """What rests on bases rests on groups; the remarks of each estimate say so."""
    study, _ = shared
    found = all_estimates(study)
    assert len(found) > 100
    for place, one in found:
        assert ("bases that share texts or sources count as one" in one.remarks) == (GROUPS in one.n), (
            place,
            one,
        )
        if "bases" in one.n:
            assert (one.n[GROUPS], one.n["bases"]) == (9, 12), (place, one.n)
        assert one.n.get(GROUPS, 9) <= 9, (place, one.n)
    assert sum(GROUPS in one.n for _, one in found) > 80
    lengths = study.length()
    assert lengths.contrasts[2].n == {"bases": 12, GROUPS: 9}
    assert lengths.anova.n[GROUPS] == 9
    assert "12 bases are 9 independent groups" in lengths.notes[-1]


def test_the_commands_captions_and_methods_say_so(shared, tmp_path):
    study, said = shared
    assert "n = 12 bases, 9 independent groups" in said
    checked = CliRunner().invoke(cli, ["prompts", "check", str(study.path.parent / "mine.csv")]).output
    assert "bases 12, prompts 36 (S 12, M 12, L 12), independent groups 9, problems" in checked
    as_json = CliRunner().invoke(cli, ["prompts", "check", str(study.path.parent / "mine.csv"), "--json"])
    assert json.loads(as_json.output)["independent_groups"] == 9
    study.figures(tmp_path, only=["quality_by_length"])
    caption = (tmp_path / "figures" / "quality_by_length.txt").read_text()
    assert "n = 12 bases, 9 independent groups, 36 answers" in caption
    told = methods_of(study)
    assert "12 bases in 9 independent groups" in told


def test_one_group_alone_has_no_interval_and_no_test(
    run,
):
    """All bases have one text of S: nothing is known of other situations, and the reason says so."""
    bases = sorted({prompt.base for prompt in load_dataset("demo").prompts})
    study, _ = run({f"{base}_s": f"{bases[0]}_s" for base in bases[1:]})
    for place, one in all_estimates(study):
        exact = one.unit.startswith("share of ")  # an interval of one case, as wide as that is
        assert exact or (one.low, one.high, one.p_value) == (None, None, None), (place, one)
    why = study.length().contrasts[2].remarks
    assert why == (
        "not estimable: 1 base with a score, and two are needed; bases that share texts or sources count as one"
    )
    assert "1 base" in study.length().anova.reason


@pytest.mark.usefixtures("no_pictures")
def test_judgements_that_share_a_call_add_up_in_the_methods(study_file):
    """Two models with the same reply: a judge is asked once of both, and both numbers stand in one sentence."""
    path = study_file()
    models = ", ".join(f'{{ name = "{name}", provider = "scripted", replies = ["Alike."] }}' for name in "ab")
    path.write_text(path.read_text().replace('{ name = "scripted" }', models))
    with Study.load(path) as study:
        study.execute(progress=False)
        told = methods_of(study)
    assert told.count(", 6 calls") == 3
    assert (
        "Of 36 planned judgements 36 gave scores; equal requests to a judge are one call, so that all of them rest on "
        "18 calls." in told
    )
