"""The study in hand: what a notebook calls, and what those calls put together from the rooms of the toolkit."""

from toolkit.workbench.study import Study

__all__ = ["Study"]
