"""A test with a key, end to end: questions times scripted models asked, compared with the key, analysed and drawn.

python tests/benchmarks/keyed.py [--questions 1000] [--models 4]          # asked: 60 s
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from toolkit import Study

STUDY = """
name = "many"
test = "keyed"
dataset = "many.csv"
models = [{models}]
[options]
columns = {{ options = ["a", "b", "c", "d"] }}
"""


def write_study(folder: Path, questions: int, models: int) -> Path:
    """Write a table of questions on networks, each with one address inside, and a study of scripted models."""
    rows = ["id,question,a,b,c,d,answer"]
    for number in range(questions):
        network = f"10.{number // 250}.{number % 250}"
        hosts = [f"{network}.7", *(f"10.9.{number % 250}.{host}" for host in (1, 2, 3))]
        rows.append(f"q{number},Which address lies in {network}.0/24?,{','.join(hosts)},A")
    (folder / "many.csv").write_text("\n".join(rows) + "\n")
    listed = ", ".join(
        f'{{ name = "m{n}", provider = "scripted", planted = {{ accuracy = {0.9 - n / 10:.1f} }} }}'
        for n in range(models)
    )
    path = folder / "many.toml"
    path.write_text(STUDY.format(models=listed))
    return path


def main() -> None:
    """Run the study, its analyses and its bundle, and print the seconds of each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--questions", type=int, default=1000)
    options.add_argument("--models", type=int, default=4)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = write_study(Path(folder), chosen.questions, chosen.models)
        with Study.load(path) as study:
            begun = time.monotonic()
            for name, job in (
                ("run", lambda: study.run(progress=False)),
                ("accuracy", lambda: study.accuracy().sentence()),
                ("compare_models", lambda: study.compare_models().sentence()),
                ("bundle", study.bundle),
            ):
                started = time.monotonic()
                job()
                print(f"{name:<16}{time.monotonic() - started:7.2f} s")
            print(f"{'all':<16}{time.monotonic() - begun:7.2f} s, asked 60 s")


if __name__ == "__main__":
    main()
