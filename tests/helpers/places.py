"""Where the project stands, for tests of what it ships besides the package."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TEMPLATES = ROOT / "templates"
PLANTED = TEMPLATES / "planted.toml"
