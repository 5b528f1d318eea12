"""The table of what `make test` leaves to the full count names tests that there are, each in its file."""

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parents[1]
TABLE = tomllib.loads((TESTS / "every_run.toml").read_text("utf-8"))


def test_every_test_of_the_table_is_in_its_file():
    """One with another name would be in every run again, and nobody would see why that takes longer."""
    gone = [
        f"{place}: {name}"
        for place, tests in TABLE.items()
        for name in tests
        if not re.search(rf"^(?:async )?def {name}\(", (TESTS / place).read_text("utf-8"), re.MULTILINE)
    ]
    assert gone == []
