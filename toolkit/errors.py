"""Errors of the toolkit: each is one line that says what is wrong, where, and what to do."""

from toolkit.secrets import redacted


class ToolkitError(Exception):
    """Anything the user can act on; the command line prints it as one line without a traceback.

    ``exit_code`` follows DESIGN section 9: 1 some runs failed, 2 bad input, 3 budget reached.
    """

    exit_code = 2

    def __init__(self, *messages: str) -> None:
        super().__init__(*map(redacted, messages))

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in a notebook in place of the traceback: the one line."""
        return [f"{type(self).__name__}: {self}"]


class Stopped(KeyboardInterrupt):
    """Ctrl-C, or an interrupted cell, in one line: every request that was sent has been answered and saved."""

    def __init__(
        self, message: str = "stopped; what was answered is kept, run the same again to go on"
    ) -> None:
        super().__init__(message)

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


MOST_FAULTS = 20


class InputError(ToolkitError):
    """A file, a value or a table the user handed in cannot be used as it is: one fault, or all of them, a line each."""

    def __init__(self, *faults: str) -> None:
        more = [f"and {len(faults) - MOST_FAULTS} more faults"] if len(faults) > MOST_FAULTS else []
        self.faults = [*faults[:MOST_FAULTS], *more]
        super().__init__("\n".join(self.faults))


class NotAnswerable(InputError):
    """The scores lack what an analysis needs; ``why`` says what."""

    def __init__(self, question: str, why: str) -> None:
        super().__init__(f"{question}: {why}")
        self.why = why


class StudyError(InputError):
    """A study file holds an unknown key, an unknown model or a value out of range."""


class PriceError(InputError):
    """A model has no price, so its cost cannot be counted."""


class StoreError(ToolkitError):
    """The store cannot be reached, or refuses what would break its integrity."""


class BudgetReached(ToolkitError):
    """The budget of the study allows no further call; running the study again resumes it."""

    exit_code = 3


class ModelError(ToolkitError):
    """A model did not answer; ``reason`` is a short stable word, ``retryable`` says whether asking again may help.

    ``billed`` is whether the provider counted tokens for it all the same.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        retryable: bool = False,
        retry_after: float | None = None,
        fatal_for_provider: bool = False,
        billed: bool = False,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.retryable = retryable
        self.retry_after = retry_after
        self.fatal_for_provider = fatal_for_provider
        self.billed = billed

    @property
    def is_pending(self) -> bool:
        """Whether the call is still to be sent or answered: it did not fail, and the study goes on with it."""
        return self.reason in ("stopped", "unreachable", "batch_unknown", "not_in_ledger")
