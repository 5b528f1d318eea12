"""Equal requests are paid once: what the estimate says beforehand is what the server sees, and no run counts twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from stub_server import Fault, StubServer

from toolkit.cli import main
from toolkit.models.base import Usage
from toolkit.models.prices import aud_cost, price_of
from toolkit.models.tokens import count_tokens
from toolkit.prompts.dataset import load_dataset
from toolkit.runs.estimate import EXPECTED_REPLY_TOKENS, confirm_needed
from toolkit.study import Study
from toolkit.words import DIMENSIONS

PRICE = "usd_per_million_input = 1.0, usd_per_million_output = 2.0"
VERDICT = json.dumps(dict.fromkeys(DIMENSIONS, 3))


def equal_study(folder: Path, server: StubServer, more: str = "", judges: str = "") -> Path:
    """Write a study of 6 prompts of which every second is the text before it again, twice, with three judges."""
    texts = [prompt.text for prompt in load_dataset("demo").prompts if prompt.length_bin == "S"][:3]
    rows = [
        {
            "prompt_id": f"p{n}_s",
            "text": texts[n // 2],
            "scenario": "CTI_ANALYSIS",
            "category": "c",
            "length_bin": "S",
        }
        for n in range(6)
    ]
    (folder / "equal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = f'provider = "compatible", base_url = "{server.openai_url}", structured = true, {PRICE}'
    roles = "\n".join(
        f'{role} = {{ name = "{role}", {model} }}' for role in ("primary", "secondary", "tertiary")
    )
    path = folder / "equal.toml"
    path.write_text(
        f'name = "equal"\ndataset = "equal.jsonl"\nrepeats = 2\nmodels = [{{ name = "m", {model} }}]\n{more}\n'
        f"[judges]\n{judges}\n{roles}\n"
    )
    return path


def by_model(server: StubServer, since: int = 0) -> list[int]:
    """Return the requests that the server saw, of the model and of each judge."""
    seen = [one.body["model"] for one in server.seen[since:]]
    return [seen.count(name) for name in ("m", "primary", "secondary", "tertiary")]


def test_the_estimate_counts_what_will_be_asked(tmp_path: Path, store_folder: Path) -> None:
    """12 runs are 6 calls and 18 judge calls, at the price of those, and paid calls are counted alike."""
    with StubServer() as server:
        study = Study.load(equal_study(tmp_path, server))
        frame = study.estimate()
        assert frame["calls"].tolist() == [6, 6, 6, 6]
        price = price_of(study.plan.models["m"])
        sent = sum(count_tokens(text) for text in {run.prompt.text for run in study.plan.runs}) * 2
        expected = aud_cost(Usage(sent, 6 * EXPECTED_REPLY_TOKENS), price)
        assert frame["expected_aud"][0] == pytest.approx(expected)
        study.execute(progress=False)
        assert by_model(server) == frame["calls"].tolist()
        after = study.estimate()
        assert (after["calls"].tolist(), after["paid_calls"].tolist()) == ([0] * 4, [6] * 4)
        study.store.close()


def test_equal_replies_share_judges_that_do_not_see_the_task(tmp_path: Path, store_folder: Path) -> None:
    """Before they came nobody knows, and the estimate says so; from then on it is exact, and so is what is asked."""
    refused = [True]

    def faults(number: int, body: dict) -> Fault | None:
        return Fault(status=400) if refused[0] and body["model"] != "m" else None

    with StubServer(
        faults=faults, answer=lambda body: "Isolate the host." if body["model"] == "m" else VERDICT
    ) as server:
        study = Study.load(equal_study(tmp_path, server, judges='rubric = "seed-v1"'))
        frame = study.estimate()
        assert frame["calls"].tolist() == [6, 6, 6, 6]
        assert frame.attrs["may_share"]
        study.execute(progress=False)
        left = study.estimate()
        assert left["calls"].tolist() == [0, 2, 2, 2]
        assert not left.attrs["may_share"]
        refused[0], since = False, server.count
        study.execute(progress=False)
        assert by_model(server, since) == left["calls"].tolist()
        assert study.estimate()["paid_calls"].tolist() == [6, 2, 2, 2]
        study.store.close()


def test_runs_and_distinct_calls_are_said(
    tmp_path: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In estimate and status, in words and in JSON."""
    with StubServer() as server:
        path = str(equal_study(tmp_path, server))
        for command in ("estimate", "status"):
            said = []
            for arguments in ([command, path], [command, path, "--json"]):
                with pytest.raises(SystemExit):
                    main(arguments)
                said.append(capsys.readouterr().out)
            assert "12 runs, 6 distinct calls" in said[0]
            assert json.loads(said[1])["distinct_calls"] == 6


@pytest.mark.parametrize(("confirm", "asks"), [(0.01, True), (0.03, False)])
def test_no_more_is_confirmed_than_the_budget_lets_out(
    tmp_path: Path, store_folder: Path, confirm: float, asks: bool
) -> None:
    """The worst case is a dollar, but the budget stops before."""
    with StubServer() as server:
        study = Study.load(
            equal_study(tmp_path, server, more=f"budget = {{ aud = 0.02, confirm_above_aud = {confirm} }}")
        )
        frame = study.estimate()
        assert frame["worst_aud"].sum() > 0.1
        if asks:
            with pytest.raises(Exception, match=r"may cost 0\.02 AUD"):
                confirm_needed(frame, confirm)
        else:
            confirm_needed(frame, confirm)
        study.store.close()
