"""The list of guarantees that are broken on purpose: each applies, and to a line that the main job runs."""

from dataclasses import replace

import pytest
from broken_guarantees import MUTATIONS, ROOT, Mutation, main_job_lines, outside_main_job


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_applies_once(mutation):
    assert (ROOT / mutation.file).read_text().count(mutation.old) == 1


def test_a_mutation_of_lines_that_did_not_run_is_named(tmp_path):
    """Lines 3 and 4 of the file are changed."""
    (tmp_path / "a.py").write_text("one\n\ntwo(\n    three)\n")
    mutation = Mutation("m", "a.py", "two(\n    three", "", "")
    assert outside_main_job([mutation], {"a.py": [1, 2]}, tmp_path) == [mutation]
    assert outside_main_job([mutation], {"a.py": [1, 4]}, tmp_path) == []
    assert outside_main_job([mutation], {"a.py": []}, tmp_path) == [mutation]


def test_every_mutation_is_of_a_line_that_the_main_job_runs():
    """And one of a formula that no study with a rubric calls is named."""
    uncalled = replace(
        MUTATIONS[0], file="toolkit/scoring.py", old='raise InputError("one-shot score: N is 0'
    )
    chosen = [*MUTATIONS, uncalled]
    assert outside_main_job(chosen, main_job_lines(one.file for one in chosen)) == [uncalled]
