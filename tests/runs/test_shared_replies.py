"""Replies of another study in one results folder: said before and after, and asked anew where a study says so."""

import pytest
from stub_study import stub_study

from toolkit.cli import main
from toolkit.runs.estimate import estimate_summary
from toolkit.runs.status import status_summary
from toolkit.study import Study

LINE = "6 of 6 replies are those of study a; `fresh = true` in the study file asks anew"


def test_a_copy_is_called_one_and_a_fresh_study_asks_anew(server, tmp_path, store_folder, capsys):
    """By estimate, command, outcome and status; judges of a fresh study are asked anew too."""
    with Study.load(stub_study(tmp_path, server.openai_url, name="a", bins='["S", "M", "L"]')) as first:
        assert "shared" not in first.execute(progress=False).to_dict()
        assert "shared" not in first.status()
    count = server.count
    path = stub_study(tmp_path, server.openai_url, name="b")
    with Study.load(path) as copy:
        estimated = estimate_summary(copy.estimate())
        assert (estimated.fields["shared"], LINE in estimated.text) == ({"a": 6}, True)
        with pytest.raises(SystemExit, match="0"):
            main(["run", str(path)])
        said = capsys.readouterr()
        assert LINE in said.err.splitlines()
        assert f"shared  {LINE}" in said.out.splitlines()
        assert f"shared      {LINE}" in status_summary(copy.status()).text.splitlines()
        assert server.count == count
    path.write_text(path.read_text().replace('name = "b"', 'name = "c"\nfresh = true', 1))
    with Study.load(path) as fresh:
        assert "shared" not in estimate_summary(fresh.estimate()).fields
        outcome = fresh.execute(progress=False)
        assert (outcome.new_calls, outcome.shared, server.count) == (count, {}, 2 * count)
        assert {tuple(seen.body) for seen in server.seen[count:]} == {
            tuple(s.body) for s in server.seen[:count]
        }
        assert fresh.execute(progress=False).new_calls == 0
