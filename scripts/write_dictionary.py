"""Write docs/reference/data_dictionary.md from the tables that the frames are made with."""

from __future__ import annotations

from pathlib import Path

from toolkit.store.frame_files import dictionary_text

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "data_dictionary.md"

if __name__ == "__main__":
    PAGE.write_text(dictionary_text(), encoding="utf-8")
    print(PAGE.relative_to(PAGE.parents[2]))
