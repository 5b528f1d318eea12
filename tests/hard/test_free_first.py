"""What the ledger has is written first: after a kill a stop at the budget leaves no paid answer out of sight."""

import pytest
from processes import capped, in_a_process, kill_when_seen
from stub_server import Fault
from stub_study import stub_study
from waiting import is_heard_out, wait_for

from toolkit.audit.verify import record_differences
from toolkit.store.documents import Annotation, Call, Run
from toolkit.study import Study


def unwritten(study):
    """Return the calls in the ledger whose reply or judgement is in no record."""
    records = [*study.store.objects(Run)]
    written = {record.call_id for record in records}
    for judgement in study.store.objects(Annotation):
        written.update(judgement.call_ids)
    return [
        call.call_id
        for call in study.store.objects(Call)
        if call.state == "done" and call.call_id not in written
    ]


@pytest.mark.parametrize("limit", [None, 2])
def test_a_budget_stop_after_a_kill_leaves_nothing_paid_unwritten(server, tmp_path, store_folder, limit):
    """Killed half-way among runs and judges, then stopped by its budget at once: verify has no difference."""
    server.latency = 0.03
    path = stub_study(tmp_path, server.openai_url, runs="repeats = 4\nconcurrency = 10")
    with Study.load(path) as study:
        lost = 0
        for moment in (9, 19, 27):
            kill_when_seen(in_a_process(study), server, server.count + moment)
            wait_for(lambda: is_heard_out(store_folder))
            lost += len(unwritten(study))
            spent = sum(call.aud_cost or 0.0 for call in study.store.objects(Call))
            stopped = capped(study, spent + 1e-6).execute(progress=False, limit=limit)
            assert stopped.exit_code == 3 or limit
            assert unwritten(study) == []
            assert record_differences(study) == []
        assert lost


SENTENCES = '[bias_controls]\nfsp_enabled = true\nfsp_mode = "per_sentence"\n'


KINDS = {
    "scores": ("scores", ""),
    "per sentence": ("scores", SENTENCES),
    "scores and pairs": ("both", ""),
    "pairs": ("pairs", ""),
}
OFTEN = ("budget-scores and pairs",)
"""What every run of the tests goes through; the others are part of the full count."""


@pytest.mark.parametrize(
    ("stops", "mode", "more"),
    [
        pytest.param(stops, *kind, id=name, marks=() if name in OFTEN else pytest.mark.full)
        for stops in ("budget", "refused", "unreachable")
        for key, kind in KINDS.items()
        for name in [f"{stops}-{key}"]
        if stops == "budget" or key in ("scores", "pairs")
    ],
)
def test_what_the_ledger_has_is_written_whatever_stops_the_rest(
    server, tmp_path, store_folder, stops, mode, more
):
    """All was paid for, and a process died before it wrote it: the first calls alone are still to be asked."""
    judges = f'mode = "{mode}"'
    path = stub_study(tmp_path, server.openai_url, bins='["S", "M"]', judges=judges, more=more)
    text = path.read_text()
    entry = text[text.index("models = [{") + 10 : text.index("}]") + 1]
    path.write_text(text.replace(entry, f"{entry}, {entry.replace('answerer', 'second')}"))
    with Study.load(path) as study:
        assert study.execute(progress=False).exit_code == 0
        assert record_differences(study) == []
        database = study.store.database
        lost = [run.call_id for run in study.plan.runs][:2]
        database["calls"].delete_many({"_id": {"$in": lost}})
        for name in ("runs", "annotations"):
            database[name].delete_many({})
        count = server.count
        if stops == "refused":
            server.faults = lambda number, body: Fault(status=401)
        elif stops == "unreachable":
            server.__exit__()
        else:
            study = capped(study, sum(call.aud_cost or 0.0 for call in study.store.objects(Call)) + 1e-6)
        outcome = study.execute(progress=False)
        assert (outcome.succeeded, outcome.exit_code) == (6, 3 if stops == "budget" else 1)
        assert record_differences(study) == []
        assert server.count - count <= 2
