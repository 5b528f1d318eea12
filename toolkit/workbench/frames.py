"""The tidy frames of a study in hand, whole or filtered: every method is one call of a function in `toolkit.store`."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from toolkit.workbench.analyses import Analyses

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.plan import Plan
    from toolkit.store.connection import Store


class StudyFrames(Analyses):
    """The frames that are read from the store; `toolkit.workbench.Study` has plan and store."""

    @property
    @abstractmethod
    def plan(self) -> Plan:
        """Every run of the study."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The open store."""

    def runs(self, **filters: Any) -> pd.DataFrame:
        """Return one row a run, of all or of those that filters name; ``study.dictionary("runs")`` has its columns.

        Parameters
        ----------
        **filters
            A value or a list of values for model, scenario, category, base, length_bin, prompt_id, repeat or status;
            True or False for judged. They are part of what the store is asked, so that no other runs are read; only
            with ``judged=False`` the judged ones are read too, and left out here.

        Raises
        ------
        InputError
            When a filter or a value of it is unknown; the line names those that are not.
        """
        from toolkit.store.frames import runs_frame
        from toolkit.workbench.selecting import select_runs

        chosen = select_runs(self.plan, filters)
        return runs_frame(
            self.store,
            chosen.call_ids,
            study=self.plan.study.name,
            clusters=self.plan.clusters,
            where=chosen.where,
            judged=chosen.judged,
        )

    def judgements(self, **filters: Any) -> pd.DataFrame:
        """Return one row a judgement of the ensemble and rubric of this study.

        Parameters
        ----------
        **filters
            As in `runs`, and a value or a list of values for judge (its role) or judge_model; True or False for failed.

        Raises
        ------
        InputError
            As `runs`.
        """
        from toolkit.store.frames import judgements_frame
        from toolkit.workbench.selecting import select_judgements

        of_runs, where = select_judgements(self.plan, filters)
        judges = {role: judge.name for role, judge in self.plan.judges.items()}
        return judgements_frame(
            self.store, self.runs(**of_runs), rubric_hash=self.plan.rubric.digest, judges=judges, where=where
        )

    def dimensions(self, **filters: Any) -> pd.DataFrame:
        """Return one row per judgement and dimension; filters as in `judgements`."""
        from toolkit.store.frames import dimensions_frame

        return dimensions_frame(self.judgements(**filters))

    def calls(self, **filters: Any) -> pd.DataFrame:
        """Return one row a call that this study paid for or rests on: runs, judges, retries, repairs, sentences.

        Parameters
        ----------
        **filters
            A value or a list of values for purpose (run or judge), state, model or role.

        Raises
        ------
        InputError
            As `runs`.
        """
        from toolkit.store.call_frames import calls_frame
        from toolkit.workbench.selecting import names_of_models, roles_of_models, select_calls

        chosen = select_calls(self.plan, filters)
        return calls_frame(
            self.store,
            study=self.plan.study.name,
            names=names_of_models(self.plan),
            roles=roles_of_models(self.plan),
            where=chosen.where,
            models=chosen.models,
            judges=chosen.roles,
        )

    def dictionary(self, kind: str | None = None) -> pd.DataFrame:
        """Return what every column of a frame is: dtype, unit, meaning, when missing; of all frames by default."""
        from toolkit.store.dictionary import describe

        return describe(kind)
