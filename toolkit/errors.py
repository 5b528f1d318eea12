"""Errors, each one line that says what is wrong, where, and what to do; and the keys and passwords that no line holds.

Secrets are refused in what people write before a call, and blacked out in what comes back and in every message; this
is the one place that knows what they look like. In a text that is data, such as a reply, only values of the environment
and forms that nothing else has are secrets: an incident with "password: hunter2" in it stays as it is.
"""

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

MARK = "[key]"
ADVICE = "put it into an environment variable and name that by api_key_env"
_VARIABLE = re.compile(
    r"(?<![A-Z])(PASS|PWD|AUTH)(?![A-Z])|KEY(?![A-Z])|TOKEN(?!I)|SECRET|PASSW|PASSPHRASE|CREDENTIAL",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r".*((api|access|secret|private|auth|subscription|account|shared|signing|functions)key(id)?|password|passwd|"
    r"passphrase|secret|credential|authorization|cookie|"
    r"(access|auth|refresh|bearer|session|security|api|csrf|hf|github|gitlab|slack|private)token)s?|(pwd|jwt|bearer)"
)
_COMMON_FIELD = re.compile("(id)?tokens?|auth|key|pass")
"""Names that fields of replies have too: a token of a tokenizer, the key of a row."""
_AWS_ID = r"(?<!\w)A(?:KI|SI)A(?![A-Z0-9]*EXAMPLE)[A-Z0-9]{16}(?!\w)"
_FORMS = (
    r"(?<![\w-])(?:(?:sk-|[sr]k_(?:live|test)_|(?:gsk|hf|r8|nvapi|npm)[-_]|(?:xai|pplx|glpat)-)(?=[\w-]*\d)[\w-]{16,}|"
    r"gh[opsur]_\w{16,}|github_pat_\w{16,}|(?<![+/])AIza[\w-]{20,}|ya29\.[\w-]{16,}|x(?:ox[a-z]|app)-[\w-]{10,}|"
    rf"eyJ[\w-]{{8,}}\.eyJ[\w-]{{8,}}\.[\w-]*)|{_AWS_ID}|hooks\.slack\.com/(?:services|workflows|triggers)/[\w/-]+|"
    r"-----BEGIN[ A-Z]*PRIVATE KEY-----(?:\\[nr]|[\w+/=\s:,.-])*?(?:-----END[ A-Z]*PRIVATE KEY-----|\Z|"
    r"(?![\\\w+/=\s:,.-]))"
)
_LOOSE = (
    r"(?<![a-z0-9])(?:(?:g?sk|[pr]k|xai|pplx|hf|r8|ghp|glpat)[-_][\w*.-]{8,}|AIza[\w-]{8,}|eyJ[\w-]{8,}\.[\w.-]*|"
    r"Bearer\s+[^\s\"',;]{6,}|Basic\s+(?=[\w+/]*[\d=+/])[\w+/=]{8,}|"
    r"(?:api[-_]?key|key|token|secret|password|passwd|pwd|auth|signature|sig)=[^\s&\"',;]+)|(?<=://)[^/@\s\"']+(?=@)"
)
"""What else is blacked out in messages of servers and libraries, where nothing is lost by it."""
# Every reply is searched: a look at the first character halves the time.
_FORM, _WORDS = re.compile(rf"(?=[-Aeghnprsxy])(?:{_FORMS})"), re.compile(f"{_FORMS}|{_LOOSE}", re.IGNORECASE)
_AWS = re.compile(r"(?<![\w+/=])(?=[a-z0-9+/]*[A-Z])(?=[A-Z0-9+/]*[a-z])[A-Za-z0-9+/]{40}(?![\w+/=])")
_MASKED = re.compile(r"\w*\*{3,}\w*")
_IN_PATH = re.compile(
    r"(?<![a-z0-9])(bearer|(api[-_]?key|key|token|secret|password|passwd|pwd|auth|signature|sig)[=:].|"
    r"(api[-_]?key|key|token|secret)/.)",
    re.IGNORECASE,
)
_TEXT = r'"(?:[^"\\]|\\.)+"'
_PAIR = re.compile(rf'"([\w.-]{{1,60}})"(\s*:\s*)({_TEXT}|\[(?:[\s,]*{_TEXT})+)')
_PASSWORD = re.compile(r"://[^/@\s:]*:([^/@\s]{8,})@")
_PLAIN = re.compile(
    r"\d+|(?=.{8,19}$)([A-Z]?[a-z]+([-_ ][a-z]+)*|[A-Z]+)|(?!.{40}$)(~|\.{0,2})/.*", re.DOTALL
)
_REMEMBERED: dict[str, str] = {}


def remember(variables: Mapping[str, str], key: str = "") -> None:
    """Take the secrets of a file of variables, and the value of the variable ``key``, for secrets of this process."""
    _REMEMBERED.update(_secrets_of(variables, key))


def _secrets_of(variables: Mapping[str, str], key: str = "") -> dict[str, str]:
    """Return the variables that have a secret, by its value; a path, a number or a plain word is none."""
    values = {}
    for name, text in variables.items():
        value = text.strip()
        if (name == key or _VARIABLE.search(name)) and len(value) >= 8 and not _PLAIN.fullmatch(value):
            values[value] = name
        for password in _PASSWORD.findall(value):
            values |= {password: name, unquote(password): name}
    return values


def variables() -> dict[str, str]:
    """Return the environment variables that hold a secret, by their values."""
    # Every reply is searched for them, and to decode the environment takes longer than that.
    raw = getattr(os.environ, "_data", os.environ)
    return _REMEMBERED | _secrets_of_environment(tuple(raw.items()))


@lru_cache(maxsize=1)
def _secrets_of_environment(_items: Any) -> dict[str, str]:
    return _secrets_of(os.environ)


@lru_cache(maxsize=8)
def _pattern(values: tuple[str, ...]) -> re.Pattern[str]:
    """Return what finds values as they are, in an address and in JSON; of several the longest first."""
    forms = {form for value in values for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))) or "(?!)")


def redacted(text: str, prompt: str = "", forms: re.Pattern[str] = _FORM) -> str:
    """Return a text without values of the environment, and without forms that only keys have and nobody asked with."""

    def mark(match: re.Match[str]) -> str:
        return match[0] if match[0].replace("\\n", "\n") in prompt else MARK

    has_id = ("AKIA" in text or "ASIA" in text) and re.search(_AWS_ID, text)
    text = forms.sub(mark, _pattern(tuple(variables())).sub(MARK, text))
    return _AWS.sub(mark, text) if has_id else text


def redacted_words(text: str) -> str:
    """Return what a server or a library said without anything that looks like a key."""
    return _MASKED.sub(MARK, redacted(text, forms=_WORDS))


def redacted_json(text: str, prompt: str = "") -> str:
    """Return JSON without secrets: without values of fields that have the name of one, too."""
    return _PAIR.sub(_pair, redacted(text, prompt))


def _pair(match: re.Match[str]) -> str:
    name, form = _plain(match[1]), _TEXT
    if _COMMON_FIELD.fullmatch(name):
        form = r'"(?=\D*\d)[^\s"\\]{16,}"'
    elif not _FIELD.fullmatch(name):
        return match[0]
    return f'"{match[1]}"{match[2]}' + re.sub(form, f'"{MARK}"', match[3])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def variable_in(text: str) -> str | None:
    """Return the environment variable whose value a text holds, ``None`` where it holds none."""
    return next((name for value, name in variables().items() if value in unquote(text)), None)


def in_address(path: str) -> bool:
    """Return whether the path of an address looks like it holds a key: it names one, or has the form of one."""
    return bool(_WORDS.search(path) or _IN_PATH.search(path) or variable_in(path))


def secret_fault(content: Any) -> str | None:
    """Return where what people wrote holds a secret, and what to do; the secret itself is not in it.

    In a table ``extra``, which is sent as it is, more names and forms are those of secrets than elsewhere.
    """
    pending: list[tuple[str, str, Any]] = [("", "", content)]
    while pending:
        location, name, value = pending.pop()
        is_secret, is_sent = _FIELD.fullmatch(_plain(name)), "extra" in location
        if isinstance(value, Mapping):
            for key, part in value.items():  # in a table of cookies or credentials every value is one
                below = f"{location}.{key}".lstrip(".")
                pending += [(below, name if is_secret else str(key), part), (location, "", str(key))]
        elif isinstance(value, list | tuple):
            pending += [(f"{location}[{number}]", name, part) for number, part in enumerate(value)]
        elif value not in ("", None, True, False):
            text, fault = str(value), "looks like a key"
            if isinstance(value, str) and is_sent:
                is_secret = is_secret or _COMMON_FIELD.fullmatch(_plain(name))
            if variable := variable_in(text):
                fault = f"holds the value of the variable {variable}"
            if is_secret or variable or (_WORDS if is_sent else _FORM).search(text):
                return f"{redacted_words(location)} {fault}, which would be stored; {ADVICE}"
    return None


class ToolkitError(Exception):
    """Anything the user can act on; the command line prints it as one line without a traceback.

    ``exit_code`` follows DESIGN section 9: 1 some runs failed, 2 bad input, 3 budget reached.

    Examples
    --------
    >>> error = ToolkitError("scores.csv, line 3: score is 'high'; write a number")
    >>> str(error), error.exit_code
    ("scores.csv, line 3: score is 'high'; write a number", 2)
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
