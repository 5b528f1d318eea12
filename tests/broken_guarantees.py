"""Break each guarantee on purpose, in a copy of the checkout, and see the test that is to notice turn red.

`make mutations` runs all of them, or ``python tests/broken_guarantees.py NAME ...`` some. A change that does not
apply any more, one of a line that the main job (``main_job.py``) does not run, a named test that is red without it, and
one that stays green with it are failures of this list.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Mutation:
    """A guarantee, the file and the text in it that gives it, what stands there without it, and who notices."""

    name: str
    file: str
    old: str
    new: str
    test: str


KEPT = "tests/hard/test_kept_before_told.py::"
KILLED = "tests/hard/test_kills.py::"
GATEWAY = "tests/runs/test_gateway.py::"
THOUGHTS = "tests/models/test_thoughts.py::"
OWNER = "tests/runs/test_owner.py::"
FINDINGS = "tests/report/test_findings.py::"
DRAWN = "tests/study/test_pairs.py::test_every_part_of_the_draw_is_balanced_where_scenarios_differ_in_size"
MUTATIONS = (
    Mutation(
        "kept before told",
        "toolkit/runs/ledger.py",
        'await self.store.writer.write("calls", operation, flush=True, unsaved=self._unsaved)',
        'asyncio.ensure_future(self.store.writer.write("calls", operation, flush=True))',
        f"{KEPT}test_an_answer_is_handed_out_when_its_reply_is_acknowledged",
    ),
    Mutation(
        "flushed before told",
        "toolkit/runs/ledger.py",
        "operation, flush=True, unsaved=self._unsaved)",
        "operation)",
        f"{KEPT}test_a_reply_is_flushed_and_acknowledged_before_anything_follows_from_it",
    ),
    Mutation(
        "flush reaches the store",
        "toolkit/store/writer.py",
        'concern["j"] = flush',
        'concern["j"] = False',
        f"{KEPT}test_a_reply_is_flushed_and_acknowledged_before_anything_follows_from_it",
    ),
    Mutation(
        "a failed write concern is no success",
        "toolkit/store/writer.py",
        'in error.details["writeConcernErrors"]',
        "in ()",
        f"{KEPT}test_a_write_that_may_be_lost_is_no_success",
    ),
    Mutation(
        "claimed before asked",
        "toolkit/runs/ledger.py",
        'await self.store.writer.write("calls", InsertOne(self._document(claim, "claimed", sent=True)))',
        'self.store.writer.submit("calls", InsertOne(self._document(claim, "claimed", sent=True)))',
        f"{KEPT}test_a_reply_is_flushed_and_acknowledged_before_anything_follows_from_it",
    ),
    Mutation(
        "what is in flight counts against the budget",
        "toolkit/runs/budget.py",
        "math.ceil(aud / _UNIT)",
        "0",
        f"{GATEWAY}test_the_budget_is_a_cap_over_everything_ever_spent",
    ),
    Mutation(
        "a dead owner's study is free",
        "toolkit/runs/owner.py",
        'return "gone" if state in "ZX" else fields[18]',
        "return str(os.getpid() and fields[18])",
        f"{OWNER}test_a_killed_process_that_nobody_waited_for_is_dead",
    ),
    Mutation(
        "a dead owner's claims are taken over",
        "toolkit/runs/ledger.py",
        'self._is_living(stored["owner"])',
        "True",
        f"{GATEWAY}test_a_claim_of_a_dead_process_is_taken_over_and_a_living_one_is_not",
    ),
    Mutation(
        "a living process of this host is alive",
        "toolkit/runs/owner.py",
        'if (lock["host"], lock["boot"]) == this_host()',
        'if lock["host"] in ()',
        f"{OWNER}test_who_lives_is_seen_here_and_told_by_its_lease_elsewhere",
    ),
    Mutation(
        "one process runs a study",
        "toolkit/runs/owner.py",
        "elif is_alive(self.store, holder):",
        "elif False:",
        f"{OWNER}test_a_second_owner_is_refused_and_another_study_is_not",
    ),
    Mutation(
        "only what is about to be sent is claimed",
        "toolkit/runs/gateway.py",
        "            await self._enter(sending)\n        except BudgetReached:",
        "            pass\n        except BudgetReached:",
        f"{KILLED}test_only_what_was_sent_may_have_been_billed_by_two_kills",
    ),
    Mutation(
        "who waits in a pause has sent nothing",
        "toolkit/runs/ledger.py",
        'return call["state"] == "claimed" and bool(call.get("sent", True))',
        'return call["state"] == "claimed"',
        f"{KILLED}test_a_call_that_was_refused_or_waits_in_a_pause_may_not_have_been_billed",
    ),
    Mutation(
        "a batch is on record before it is submitted",
        "toolkit/runs/provider_batch.py",
        'await self._store.writer.write("batches", InsertOne(document.to_mongo().to_dict()), flush=True)',
        "await asyncio.sleep(0)",
        "tests/hard/test_batch_mode.py::test_a_process_that_ends_leaves_its_batch_to_the_next",
    ),
    Mutation(
        "a missing score is never zero",
        "toolkit/scoring.py",
        "present = [value for value in values if value is not None]",
        "present = [value or 0.0 for value in values]",
        "tests/stats/test_scoring.py::test_a_failed_judge_is_missing_and_never_a_zero",
    ),
    Mutation(
        "the fence is not known to what it fences",
        "toolkit/judges/request.py",
        "nonce = fence_code(shown_before(rubric, manner, task, reference), response, judge.seed)",
        'nonce = fence_code(shown_before(rubric, manner, task, reference), "", judge.seed)',
        "tests/hard/test_hostile_replies.py::test_the_code_follows_the_material_and_the_seed_and_chasing_it_never_catches_it",
    ),
    Mutation(
        "Ctrl-C waits for what is in flight",
        "toolkit/runs/execution.py",
        "if pressed and now > pressed[0] + ECHO_SECONDS:",
        "if True:",
        "tests/hard/test_stops.py::test_the_first_ctrl_c_waits_for_what_is_in_flight",
    ),
    Mutation(
        "nothing new is sent after Ctrl-C",
        "toolkit/runs/gateway.py",
        "self._stop = stop or threading.Event()",  # every guard of it: each alone is covered by the others
        "self._stop = threading.Event()",
        "tests/hard/test_stops.py::test_nothing_is_sent_after_ctrl_c",
    ),
    Mutation(
        "the budget is a cap",
        "toolkit/runs/budget.py",
        'most = {"units": {"$lte": round((self._budget - aud) / _UNIT)}}',
        'most = {"name": self._owner.name}',
        f"{GATEWAY}test_the_budget_is_a_cap_over_everything_ever_spent",
    ),
    Mutation(
        "what a model billed above its worst case is its worst case from then on",
        "toolkit/runs/gateway.py",
        "return sending.base_aud * self._overrun.get(sending.endpoint.key[:2], 1.0)",
        "return sending.base_aud",
        "tests/hard/test_budget_cap.py::test_what_replies_show_holds_back_what_was_set_aside_before",
    ),
    Mutation(
        "what the ledger has is written first",
        "toolkit/pipeline.py",
        "    execution.gateway.free = True\n    try:\n        await execution.run(shown=False)",
        "    try:\n        pass",
        "tests/hard/test_free_first.py::"
        "test_what_the_ledger_has_is_written_whatever_stops_the_rest[refused-scores]",
    ),
    Mutation(
        "a thought without an end leaves no verdict",
        "toolkit/models/thoughts.py",
        "    if start is None:",
        "    if start is not None:",
        f"{THOUGHTS}test_what_stands_after_the_last_thought",
    ),
    Mutation(
        "a straight mark over several lines may begin or end",
        "toolkit/models/thoughts.py",
        "sure = mark != '\"' or ",
        "sure = mark != '\"' and ",
        f"{THOUGHTS}test_what_stands_after_the_last_thought",
    ),
    Mutation(
        "no key is kept",
        "toolkit/models/transport.py",
        'text = message if not key else message.replace(key, "[key]")',
        "text = message",
        "tests/hard/test_secrets.py::test_a_key_in_a_refusal_is_in_no_file_and_no_output",
    ),
    Mutation(
        "ten repeats are ten calls",
        "toolkit/models/base.py",
        "canonical = {**vars(self), ",
        'canonical = {**vars(self), "repeat": 0, ',
        f"{GATEWAY}test_the_same_repeat_is_asked_once_and_another_repeat_again",
    ),
    Mutation(
        "an edited field of an exported record is named",
        "toolkit/store/record_files.py",
        "if before.get(field) != now.get(field):",
        "if False:",
        "tests/hard/test_exports.py::test_an_edited_record_of_any_file_is_named",
    ),
    Mutation(
        "an edit of the ledger is seen",
        "toolkit/audit/consistency.py",
        "if not is_as_sealed(call):",
        "if False:",
        "tests/study/test_planted_faults.py::test_a_fault_in_the_store_is_named[a raw reply altered]",
    ),
    Mutation(
        "a verdict is that of P",
        "toolkit/thesis/findings.py",
        "else number.p_value < LEVEL",
        "else number.p_value >= LEVEL",
        f"{FINDINGS}test_the_verdict_is_that_of_both_tests",
    ),
    Mutation(
        "an interval that ends at 0 holds 0",
        "toolkit/thesis/findings.py",
        "reference < low)",
        "reference <= low)",
        f"{FINDINGS}test_a_sentence_says_interval_p_value_and_verdict",
    ),
    Mutation(
        "what its family made undecided is said",
        "toolkit/thesis/findings.py",
        '"corrected" if _leaves_out(number, reference)',
        '"corrected" if not _leaves_out(number, reference)',
        f"{FINDINGS}test_a_sentence_says_interval_p_value_and_verdict",
    ),
    Mutation(
        "scenarios are drawn by their size",
        "toolkit/judges/pairs.py",
        "((number + 0.5) / len(bases), at, bases[number])",
        "((number + 0.5), at, bases[number])",
        DRAWN,
    ),
    Mutation(
        "each base begins at another length",
        "toolkit/judges/pairs.py",
        "base[(turn + start) % len(base)]",
        "base[turn % len(base)]",
        DRAWN,
    ),
    Mutation(
        "a base is drawn again once all have been",
        "toolkit/judges/pairs.py",
        "range(max(map(len, bases), default=0))",
        "range(min(map(len, bases), default=0))",
        "tests/study/test_pairs.py::test_bases_with_fewer_prompts_take_part_as_long_as_they_have_some",
    ),
    Mutation(
        "a base without a prompt left is passed over",
        "toolkit/judges/pairs.py",
        "if turn < len(base)",
        "if turn <= len(base)",
        "tests/study/test_pairs.py::test_bases_with_fewer_prompts_take_part_as_long_as_they_have_some",
    ),
    Mutation(
        "every two models take the next slots",
        "toolkit/judges/pairs.py",
        "order[(number * size + turn) % len(order)]",
        "order[turn % len(order)]",
        "tests/study/test_pairs.py::test_a_limited_draw_connects_all_models_and_is_balanced_over_bases_scenarios_and_lengths",
    ),
)


def lines_of(mutation: Mutation, text: str) -> set[int]:
    """Return the numbers of the lines of its file that a mutation changes."""
    start = text.index(mutation.old)
    first = text.count("\n", 0, start) + 1
    return set(range(first, first + len(mutation.old.strip("\n").splitlines())))


def outside_main_job(
    mutations: Iterable[Mutation], executed: Mapping[str, Sequence[int]], root: Path = ROOT
) -> list[Mutation]:
    """Return the mutations none of whose lines the main job ran: what they change is dead, or only tests call it."""
    return [
        mutation
        for mutation in mutations
        if not lines_of(mutation, (root / mutation.file).read_text()).intersection(executed[mutation.file])
    ]


def main_job_lines(files: Iterable[str]) -> dict[str, list[int]]:
    """Run the main job by scripted models and return which lines of some files it ran."""
    command = [sys.executable, "tests/main_job.py", *sorted(set(files))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"the main job did not come to its end\n{done.stderr[-2000:]}")
    lines: dict[str, list[int]] = json.loads(done.stdout)
    return lines


def is_green(checkout: Path, tests: list[str]) -> bool:
    """Return whether tests of a checkout pass with its own package; ends all when they could not be run."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # pytest found no such test, or broke down itself
        sys.exit(f"{' '.join(tests)}: not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0


def copy_to(folder: Path) -> None:
    """Copy what git would commit, as it stands in the working tree."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())


def main(names: list[str]) -> int:
    """Run the mutations with these names, or all, and return how many were not noticed, or are of dead lines."""
    unknown = set(names) - {mutation.name for mutation in MUTATIONS}
    if unknown:
        sys.exit(f"no such mutation: {', '.join(sorted(unknown))}")
    chosen = [mutation for mutation in MUTATIONS if not names or mutation.name in names]
    stale = [m for m in MUTATIONS if (ROOT / m.file).read_text().count(m.old) != 1]
    for mutation in stale:
        print(f"STALE     {mutation.name}: its text stands not once in {mutation.file}")
    if stale:
        return len(stale)
    dead = outside_main_job(chosen, main_job_lines(mutation.file for mutation in chosen))
    for mutation in dead:
        print(f"NOT LIVE  {mutation.name}: the main job runs no line of it in {mutation.file}", flush=True)
    missed = len(dead)
    with tempfile.TemporaryDirectory() as place:
        checkout = Path(place)
        copy_to(checkout)
        if not is_green(checkout, sorted({mutation.test for mutation in chosen})):
            sys.exit("a named test is red without any mutation; mend that first")
        for mutation in chosen:
            file = checkout / mutation.file
            whole = file.read_text()
            file.write_text(whole.replace(mutation.old, mutation.new))
            noticed = not is_green(checkout, [mutation.test])
            file.write_text(whole)
            missed += not noticed
            said = "red" if noticed else "NOT SEEN"
            print(f"{said:9} {mutation.name} | {mutation.file} | {mutation.test}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
