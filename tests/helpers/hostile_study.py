"""A finished study in which prompts, replies, judges' reasons and people's remarks all try to act on the reader."""

import contextlib
import csv
import json

from toolkit.models.tokens import count_tokens
from toolkit.people.ratings_file import import_ratings
from toolkit.store import embedded
from toolkit.study import Study
from toolkit.words import DIMENSIONS

ATTACKS = {
    "script": "<script>document.title = 'OWNED'</script>",
    "handler": "<img src=x onerror=\"document.title = 'OWNED'\">",
    "svg": "<svg onload=\"document.title = 'OWNED'\"><circle r=9></circle></svg>",
    "link": "[press](javascript:document.title='OWNED') and <a href=\"javascript:alert(1)\">here</a>",
    "remote": "![pixel](http://127.0.0.1:9/pixel.png) and <iframe src=http://127.0.0.1:9/></iframe>",
    "math": "It costs $\\frac{a}{b}$ or $$\\sum_i x_i$$ or \\(y\\).",
    "style": "<style>body { display: none }</style><form action=http://127.0.0.1:9/><input name=key></form>",
    "close": "</pre></div></details></article></main><h1 id=tv-find>escaped</h1>",
    "escapes": "\x1b[2J\x1b[31mred\x1b[0m \x9b31m \u202egpj.exe\u202c \u200bhidden\u2066 \U000e0041\r over",
}
"""One attack a line, by what it is."""
BEGINNING = (
    "# Plan\n\nIsolate the host at once. Then **image** the disk of the host.\n\n- Notify the owner of it."
)
REPLY = "\n\n".join((BEGINNING, *ATTACKS.values()))
OTHER = (
    "# Plan\n\nIsolate the server at once. Then tell the owner of the server.\n\n"
    "| port | state |\n|---|---|\n| 22 | open |"
)
FILLER = "The host sent traffic to an address that nobody knows, and the owner has not answered yet. "
STUDY = """
name = "hostile"
note = "Scripted models answer and judge."
output = "results/hostile"
dataset = "prompts.jsonl"
scenarios = ["SOC_INCIDENT"]
length_bins = ["S", "M"]
repeats = 2

[[models]]
name = "scripted"
replies = {replies}

[judges]
primary = {{ name = "judge-a", provider = "scripted", replies = {said} }}
secondary = {{ name = "judge-b", provider = "scripted", replies = {said} }}
tertiary = {{ name = "judge-c", provider = "scripted", replies = ["no JSON: <script>alert(1)</script>"] }}
"""


def hostile_prompt(level):
    """Return a prompt with every attack in it, as long as its length bin asks."""
    text = "\n".join(ATTACKS.values())
    low = {"S": 150, "M": 450}[level]
    while count_tokens(text) < low + 15:
        text = FILLER + text
    return text


def _toml(texts):
    return json.dumps(texts, ensure_ascii=False)  # TOML has no surrogate pairs


def _rate(study, path):
    """Keep a rating of every run, with attacks for a remark; they have no round, so that nothing is hidden."""
    remark = "REMARK " + " ".join(attack for name, attack in ATTACKS.items() if name != "escapes")
    with path.open("w", newline="", encoding="utf-8") as stream:
        lines = csv.writer(stream)
        lines.writerow(["run_id", "rater", "reasons", *DIMENSIONS])
        lines.writerows([run_id, "anna", remark, *[3] * len(DIMENSIONS)] for run_id in study.runs()["run_id"])
    import_ratings(study.plan, study.store, path)


@contextlib.contextmanager
def hostile_study(folder):
    """Run the study of four runs, each rated by one person; stop its store at the end."""
    rows = [
        {"prompt_id": f"base_one_{level.lower()}", "text": hostile_prompt(level), "category": "x",
         "scenario": "SOC_INCIDENT", "length_bin": level}
        for level in "SM"
    ]  # fmt: skip
    (folder / "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    said = json.dumps({"reasons": "\n".join(ATTACKS.values()), **dict.fromkeys(DIMENSIONS, 3.5)})
    path = folder / "hostile.toml"
    path.write_text(
        STUDY.format(
            replies=json.dumps([REPLY, OTHER], ensure_ascii=False),
            said=json.dumps([said], ensure_ascii=False),
        )
    )
    study = Study.load(path)
    try:
        study.execute(progress=False)
        _rate(study, folder / "ratings.csv")
        yield study
        study.store.close()
    finally:
        embedded.stop(study.plan.store_folder)
