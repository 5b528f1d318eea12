"""The base class of tests, in the words of seed 001, and the search for the test that a study names.

A test calls no model itself: it receives replies, and an ``ask`` function.
"""

import asyncio
import importlib
import importlib.util
import inspect
import json
import math
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from importlib.metadata import entry_points
from itertools import product, starmap
from pathlib import Path
from statistics import fmean
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, TypeAlias

from pydantic import TypeAdapter

from toolkit.errors import BudgetReached, InputError, ModelError, StudyError, ToolkitError
from toolkit.files.digests import digest
from toolkit.files.reading import similar_file
from toolkit.files.writing import write_atomically
from toolkit.models.base import Ask
from toolkit.stats.inference.means import clustered_mean
from toolkit.stats.inference.proportions import rate_mean
from toolkit.stats.result import Estimate
from toolkit.words import choices, name_fault, suggestion

Result: TypeAlias = Estimate  # a number about a whole test


@dataclass(frozen=True)
class Prompt:
    """A text that is sent, with the fields of seed 002, section 3.1; a test of your own needs the text alone.

    ``token_count`` counts ``o200k_base`` tokens. ``metadata``
    has ``data_sources`` (list of texts), ``academic_grade`` (whether the prompt was composed from a base) and
    ``base_scenario``, and where the base has them ``csf`` (a function of the NIST CSF), ``elements`` (list of texts,
    parts of a good answer), ``reference`` (the text of an answer that counts as right; no model under test sees it) and
    ``fact_kinds`` (list of texts); a prompt of a length arm has ``length_arm``, its name. Prompts of other tests than
    the rubric study have no scenario, category and length bin. The toolkit counts tokens and sets the version itself.
    """

    text: str
    prompt_id: str = ""
    scenario: str = ""
    category: str = ""
    level: str = ""
    token_count: int = 0
    dataset_version: str = ""
    base: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class PromptWithContext:
    """One prompt, and the context for reading its reply, which the model never sees.

    ``prompt`` is a `Prompt`, of this module or of ``toolkit``. Its ``prompt_id`` is unique in the test, and made from
    the text where it has none: equal texts need ids. A prompt that has a ``repeat`` is asked in that repeat alone;
    others are asked in every repeat. In a test either all prompts have one or none.

    Examples
    --------
    >>> PromptWithContext(Prompt("Alice works in a hospital. She is a ")).prompt_id
    'df7834823607'
    """

    prompt: InitVar[Prompt]
    context: Any = None
    repeat: int | None = None
    prompt_id: str = field(init=False)
    text: str = field(init=False)

    def __post_init__(self, prompt: Prompt) -> None:
        match prompt:
            case object(text=str(text), prompt_id=prompt_id):
                object.__setattr__(self, "prompt_id", prompt_id or digest(text)[:12])
                object.__setattr__(self, "text", text)
            case _:
                raise InputError(f"{prompt!r:.60} is no Prompt; write PromptWithContext(Prompt(text))")


@dataclass(frozen=True)
class TestItem:
    """The smallest measurable piece: prompts that are read together, each in a call of its own.

    ``item_id`` is unique in the test, and made from the texts where none is given. The model never sees ``context``: an
    expected word, a base, a length bin. Items with the same ``cluster``, such as questions on one document, are not
    independent of each other; ``category`` is what results may be told by.

    Examples
    --------
    >>> item = TestItem(
    ...     prompts=[
    ...         PromptWithContext(Prompt("Alice works in a hospital. She is a ")),
    ...         PromptWithContext(Prompt("Bob works in a hospital. He is a ")),
    ...     ],
    ...     context=["nurse", "doctor"],
    ... )
    >>> len(item.prompts), item.context
    (2, ['nurse', 'doctor'])
    """

    __test__: ClassVar[bool] = False  # pytest collects classes that begin with Test

    item_id: str = ""
    prompts: Sequence[PromptWithContext] = ()
    context: Any = None
    cluster: str | None = None
    category: str = ""

    def __post_init__(self) -> None:
        prompts = tuple(self.prompts)
        if not isinstance(self.item_id, str) or not all(isinstance(p, PromptWithContext) for p in prompts):
            raise InputError(
                "test item: write TestItem(prompts=[PromptWithContext(Prompt(text))], context=...)"
            )
        item_id = self.item_id or digest(*(prompt.prompt_id for prompt in prompts))[:12]
        object.__setattr__(self, "prompts", prompts)
        object.__setattr__(self, "item_id", item_id)
        if fault := name_fault(self.item_id) or name_fault(self.category):
            raise InputError(f"test item: {fault}")


@dataclass(frozen=True)
class PromptReply:
    """The reply of one run to one prompt; where the run failed, ``text`` is ``None`` and ``failure`` says why.

    ``model`` is the model's name in the study, ``repeat`` the repeat index.
    """

    prompt: PromptWithContext
    text: str | None
    run_id: str
    model: str
    repeat: int = 0
    failure: str | None = None


@dataclass(frozen=True)
class TestItemAnnotations:
    """The replies of one model to one item in one repeat, in the order of its prompts, with their annotations.

    ``annotations`` has for each annotator one annotation per reply, ``None`` where there is none, and ``missing`` why.
    """

    __test__: ClassVar[bool] = False

    item: TestItem
    replies: tuple[PromptReply, ...]
    annotations: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    missing: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """A number about one item; a missing or infinite ``value`` is ``None`` and has a ``reason``.

    Examples
    --------
    >>> Measurement("correct", 1.0, "share")
    Measurement(name='correct', value=1.0, unit='share', reason=None)
    >>> Measurement("correct", None, reason="the reply was cut off").reason
    'the reply was cut off'
    """

    name: str
    value: float | None
    unit: str = "none"
    reason: str | None = None

    def __post_init__(self) -> None:
        try:
            is_finite = self.value is None or math.isfinite(self.value)
        except TypeError:
            raise InputError(f"measurement {self.name}: {self.value!r:.60} is no number") from None
        if not is_finite:
            object.__setattr__(self, "reason", self.reason or f"not a finite number ({self.value})")
            object.__setattr__(self, "value", None)


@dataclass(frozen=True)
class MeasuredTestItem:
    """An item with its measurements: one model, one repeat."""

    item: TestItem
    measurements: tuple[Measurement, ...]
    model: str
    repeat: int = 0

    def value(self, name: str) -> float | None:
        """Return the value of one measurement; ``None`` when it is missing."""
        for measurement in self.measurements:
            if measurement.name == name:
                return measurement.value
        raise InputError(
            f"item {self.item.item_id} has no measurement {name!r}; ask for one that its test makes"
        )


@dataclass(frozen=True)
class ResultType:
    """A result that a test will produce.

    Examples
    --------
    >>> ResultType("accuracy", "share of items")
    ResultType(name='accuracy', unit='share of items')
    """

    name: str
    unit: str


Annotator: TypeAlias = Callable[[PromptReply, Ask], Awaitable[Any]]
"""A judge or a function that returns a frozen object for a reply."""


class PromptResponseTest(ABC):
    """A test of single-turn prompts, all of which are known before the first request is sent.

    ``name`` is its name in the store. ``default_repeats`` is the number of repeats of a study that sets none.
    ``judged``: its annotators are the judges of the study, whose judgements are stored and compared. ``asks_judges``:
    its annotators ask judges at all. ``repeats_together``: all repeats of a prompt are asked before the next prompt.
    ``keyed``: replies are compared with a key, and the first measurement of an item is its score, from 0 to 1.

    Examples
    --------
    >>> class Greeting(PromptResponseTest):
    ...     name = "greeting"
    ...     def make_test_items(self):
    ...         return [TestItem("hello", [PromptWithContext(Prompt("Say hello."))])]
    ...     def measure_quality(self, item_annotations):
    ...         (reply,) = item_annotations.replies
    ...         return [Measurement("greets", float("hello" in (reply.text or "").lower()), "share")]
    ...     def result_types(self):
    ...         return [ResultType("greeting", "share")]
    ...     def aggregate_measurements(self, measured_items):
    ...         return [mean_result("greeting", measured_items, "greets", "share", bounds=(0, 1))]
    >>> [item.item_id for item in Greeting().make_test_items()]
    ['hello']
    """

    name: str
    default_repeats: ClassVar[int] = 1
    judged: ClassVar[bool] = False
    keyed: ClassVar[bool] = False
    repeats_together: ClassVar[bool] = False
    asks_judges: bool = False

    @abstractmethod
    def make_test_items(self) -> tuple[TestItem, ...]:
        """Return all items, the same at every call."""

    def annotators(self) -> Mapping[str, Annotator]:
        """Return the annotators by name; a test that reads replies itself has none."""
        return {}

    def question(self, text: str) -> Any:
        """Return the right and wrong answers to a prompt, for scripts with planted accuracy; ``None`` without a key."""
        return None

    @abstractmethod
    def measure_quality(self, item_annotations: TestItemAnnotations) -> list[Measurement]:
        """Return the measurements of one item; a missing one is ``None`` with its reason."""

    @abstractmethod
    def aggregate_measurements(self, measured_items: Sequence[MeasuredTestItem]) -> list[Result]:
        """Return the results over all items of one model, one for each of `result_types`."""

    @abstractmethod
    def result_types(self) -> tuple[ResultType, ...]:
        """Return the results of `aggregate_measurements`, in its order."""


async def annotate(
    test: PromptResponseTest,
    item: TestItem,
    replies: Sequence[PromptReply],
    ask: Ask,
    stop: threading.Event | None = None,
) -> TestItemAnnotations:
    """Have every annotator annotate every reply of one item, all at once; a failed reply is not annotated.

    A model error leaves an annotation missing with its reason. Any other error is raised after the other annotations
    have arrived; all but a reached budget set ``stop``, so that nothing new is asked.
    """
    annotators = test.annotators()

    async def annotated(name: str, reply: PromptReply) -> tuple[Any, str | None]:
        if reply.text is None:
            return None, reply.failure
        try:
            return await annotators[name](reply, ask), None
        except ModelError as error:
            return None, f"{error.reason}: {error}"
        except BudgetReached:
            raise
        except (Exception, SystemExit) as error:
            if stop:
                stop.set()
            if isinstance(error, SystemExit):  # asyncio would let it end the whole loop, without a word
                raise RuntimeError(repr(error)) from error
            raise

    annotations = starmap(annotated, product(annotators, replies))
    outcomes: list[Any] = await asyncio.gather(*annotations, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    parts = {name: outcomes[n * len(replies) :][: len(replies)] for n, name in enumerate(annotators)}
    return TestItemAnnotations(
        item,
        tuple(replies),
        {name: tuple(annotation for annotation, _ in part) for name, part in parts.items()},
        {name: tuple(reason for _, reason in part) for name, part in parts.items()},
    )


@contextmanager
def code_of_users(message: str, kind: type[InputError] = StudyError, advice: str = "") -> Iterator[None]:
    """Turn an error in a test's own code into one line: a message, the error, and what to do."""
    try:
        yield
    except ToolkitError:
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{message}: {type(error).__name__}: {error}{advice}") from error


SHIPPED: Mapping[str, str] = {
    "rubric_study": "toolkit.judges.rubric_study:RubricStudy",
    "keyed": "toolkit.keyed.keyed_test:KeyedTest",
    "one_shot": "toolkit.traffic.one_shot:OneShotTest",
}
ENTRY_POINTS = "toolkit.tests"
"""A package offers a test under this group: ``[project.entry-points."toolkit.tests"] mine = "package:MyTest"``."""


RECORD = "plan.json"
"""File in the output folder with what code of a study's own planned at its last run: looking reads it and runs none."""
_RECORDED = ("name", "default_repeats", "judged", "repeats_together", "asks_judges")


def names_code(test: str, options: Mapping[str, Any]) -> bool:
    """Return whether a study names code that does not ship, by its test or its scorer."""
    if test not in SHIPPED or entry_points(group=ENTRY_POINTS, name=test):
        return True
    return ":" in str(options.get("scorer"))


def record_test(test: PromptResponseTest, folder: Path) -> None:
    """Write what a test plans into the output folder of its study, for those who look at it."""
    record = {name: getattr(test, name) for name in _RECORDED} | {"parameters": study_parameters(type(test))}
    record["items"] = [
        vars(item)
        | {
            "context": None,  # which may be any object
            "prompts": [
                {"prompt": {"text": p.text, "prompt_id": p.prompt_id}, "repeat": p.repeat}
                for p in item.prompts
            ],
        }
        for item in test.make_test_items()
    ]
    write_atomically(folder / RECORD, json.dumps(record).encode())


def recorded_test(folder: Path) -> Any:
    """Return what `record_test` wrote as a test that measures nothing."""
    try:
        record = json.loads((folder / RECORD).read_bytes())
        items = TypeAdapter(tuple[TestItem, ...]).validate_python(record["items"])
        fields = {name: record[name] for name in (*_RECORDED, "parameters")}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise StudyError(
            "its test or scorer is code of its own, which looking does not run, and no run has recorded its plan; run "
            "it first: `toolkit run STUDY`"
        ) from None
    return SimpleNamespace(**fields, make_test_items=lambda: items)


def find_test(name: str, folder: Path) -> type[PromptResponseTest]:
    """Return the class of the test that a study names."""
    installed = SHIPPED.get(name)
    for offered in entry_points(group=ENTRY_POINTS, name=name):
        installed = offered.value
    target = installed or name
    source, _, class_name = target.rpartition(":" if ":" in target else ".")
    if not source or not class_name:
        allowed = f"{choices(name, SHIPPED)}, file.py:Class or package.module:Class"
        raise StudyError(f"test: {name!r} is not known; {allowed}")
    with code_of_users(f"test: {name!r} cannot be imported"):
        # What is installed is not looked for beside the study, and neither is what it imports.
        module = importlib.import_module(source) if installed else module_of_users(source, folder)
        test_class = getattr(module, class_name, None)
    if not (inspect.isclass(test_class) and issubclass(test_class, PromptResponseTest)):
        raise StudyError(f"test: {name!r}: {source} has no class {class_name} that is a PromptResponseTest")
    if inspect.isabstract(test_class):
        missing = ", ".join(sorted(test_class.__abstractmethods__))
        raise StudyError(f"test: {name!r}: {class_name} lacks {missing}")
    return test_class


def module_of_users(source: str, folder: Path, what: str = "test") -> ModuleType:
    """Return a module by its name, or by its file beside the study."""
    if not source.endswith(".py"):
        sys.path.insert(0, str(folder))
        try:
            return importlib.import_module(source)
        finally:
            sys.path.remove(str(folder))
    path = folder / source
    if not path.is_file():
        raise StudyError(
            f"{what}: {path.name}: no such file beside the study; {similar_file(path)}check the name"
        )
    # Named by path and content: two studies may each have a tests.py, and a notebook may edit and load it again.
    name = f"toolkit_user_{path.stem}_{digest(str(path.resolve()), repr(path.read_bytes()))[:12]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader  # of a file .py
        sys.modules[name] = module = importlib.util.module_from_spec(
            spec
        )  # dataclasses look it up while it is made
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def make_test(
    test: type[PromptResponseTest], options: Mapping[str, Any], provided: Mapping[str, Any]
) -> PromptResponseTest:
    """Return a test made with the options of a study, and with those of its objects that the constructor takes."""
    parameters = parameters_of(test)
    allowed = [name for name in parameters if name not in provided]
    unknown = [name for name in options if name not in allowed]
    if unknown:
        raise StudyError(
            f"options.{unknown[0]}: test {test.__name__} has no such option; {suggestion(unknown[0], allowed)}"
            f"{'its options are ' + ', '.join(allowed) if allowed else 'it has none'}"
        )
    missing = [n for n in allowed if parameters[n].default is inspect.Parameter.empty and n not in options]
    if missing:
        raise StudyError(f"options.{missing[0]}: test {test.__name__} needs this option")
    arguments = {name: value for name, value in provided.items() if name in parameters}
    with code_of_users(f"test {test.__name__}"):
        return test(**arguments, **options)


def parameters_of(test: type[PromptResponseTest]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a test's constructor, by name."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(test).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind in named}


def study_parameters(test: type[PromptResponseTest]) -> list[str]:
    """Return the parameters of a test that its study may fill: prompts with a default are an option of the test."""
    parameters = parameters_of(test).items()
    return [
        name for name, parameter in parameters if name != "prompts" or parameter.default is parameter.empty
    ]


def one_model(measured_items: Sequence[MeasuredTestItem]) -> None:
    """Refuse to aggregate items of several models."""
    if len(models := sorted({measured.model for measured in measured_items})) > 1:
        raise InputError(f"results of {', '.join(models)} are not pooled; aggregate each model alone")


def mean_result(
    name: str,
    measured_items: Sequence[MeasuredTestItem],
    measurement: str,
    unit: str = "none",
    bounds: tuple[float, float] | None = None,
) -> Result:
    """Return the mean of one measurement over items, with an interval over the items.

    Repeats are averaged within an item, however many: ten are not ten items. Items of one ``cluster`` are one, too.

    Parameters
    ----------
    name
        Name of the result, as in `PromptResponseTest.result_types`.
    measured_items
        The measured items of one model.
    measurement
        Name of the measurement; missing ones are left out and counted.
    unit
        Unit of the measurement.
    bounds
        Least and greatest possible value, 0 and 1 for a share: the interval is Wilson's, of the mean as a share of what
        lies between them (`toolkit.stats.inference.proportions.rate_mean`). Without them it is Student's t.

    Returns
    -------
    Estimate
        With the numbers of items and replies it rests on, and how many were missing.

    Raises
    ------
    InputError
        When a value is not between the bounds.

    Examples
    --------
    >>> items = [MeasuredTestItem(TestItem(n, ()), (Measurement("right", v),), "m") for n, v in (("a", 1), ("b", 0))]
    >>> mean_result("share right", items, "right").estimate
    0.5
    """
    pairs = [(measured.item, measured.value(measurement)) for measured in measured_items]
    present = [(item, value) for item, value in pairs if value is not None]
    by_item: dict[tuple[str, str | None], list[float]] = {}
    for item, value in present:
        by_item.setdefault((item.item_id, item.cluster), []).append(value)
    units, values = [cluster or name for name, cluster in by_item], list(map(fmean, by_item.values()))
    n = {"items": len(by_item), "measurements": len(present)}
    method = "t over items, clustered (Miller 2024)"
    empty = Estimate(name, None, method=method, unit=unit, n=n, missing=len(pairs) - len(present))
    if not present:
        numbers = [number for measured in measured_items for number in measured.measurements]
        reasons = {number.reason for number in numbers if number.name == measurement and number.reason}
        return empty.not_estimable(", ".join(sorted(reasons)) or "there is no measurement")
    if bounds is None:
        return clustered_mean(values, units).of(empty)
    low, high = bounds
    if outside := [value for value in values if not low <= value <= high]:
        raise InputError(
            f"{name}: {measurement} {outside[0]:g} is not between {low:g} and {high:g}; correct it, or the bounds"
        )
    rate = rate_mean(empty, [(value - low) / (high - low) for value in values], units)
    ends = (None if end is None else low + (high - low) * end for end in (rate.low, rate.high))
    return rate.with_value(sum(values) / len(values), *ends)
