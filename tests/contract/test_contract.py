"""The contract: what an earlier commit said of three studies is what this one says, to eight digits.

`python tests/contract/freeze.py` freezes anew; a difference that is meant is a line in CHANGELOG with its reason.
"""

import tarfile

import pytest
from contract_studies import write_studies
from freeze import STORE, differences, frame, make, read

from toolkit import Study
from toolkit.store import embedded

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.mark.parametrize("without", [("whole", "commands"), ()], ids=["some", "all"])
def test_no_number_moved(tmp_path, without):
    """Call identities, requests, frames, results, figures' and tables' numbers, captions, `--json`."""
    # One test of all studies and their commands: of one each, workers would make some of the studies twice.
    now = make(tmp_path, without)
    embedded.stop(tmp_path / "results" / ".store")
    assert now.keys() == {"whole", "gaps", "one_shot", "typed", "commands"} - set(without)
    moved = {name: differences(read(name), now[name], name) for name in now}
    lines = [line for each in moved.values() for line in each[:40]]
    assert not lines, f"{sum(map(len, moved.values()))} differences:\n" + "\n".join(lines)


def test_a_store_of_an_earlier_commit_opens_and_asks_nothing(tmp_path):
    """Every run and judgement of the three studies is there as it was; `run` makes no call."""
    with tarfile.open(STORE) as archive:
        archive.extractall(tmp_path, filter="data")
    try:
        for name, path in write_studies(tmp_path).items():
            if name == "typed":  # of a later commit than the store
                continue
            study = Study.load(path)
            assert study.run(progress=False)["new_calls"] == 0
            for kind in ("calls", "judgements") if study.plan.judges else ("calls",):
                before, after = read(name)[f"{kind}()"], frame(getattr(study, kind)(), {})
                assert before["dtypes"] == after["dtypes"]
                assert len(before["rows"]) == len(after["rows"]) > 0
            study.store.close()
    finally:
        embedded.stop(tmp_path / "results" / ".store")
