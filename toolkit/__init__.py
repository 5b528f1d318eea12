"""Research toolkit for theses about language models in security work.

``from toolkit import Study`` is the way in, and everything a notebook needs comes from here; what is heavy is loaded
when it is first needed.
"""

from importlib import import_module
from typing import Any

from toolkit.words import DIMENSIONS
from toolkit.words import VERSION as __version__

_FROM = {
    "study": "Study",
    "scores.scores": "Scores",
    "errors": "ToolkitError",
    "report.show": "need_results need_whole print_text result say show_figure",
    "runs.status": "status_sentence",
    "report.figure": "about_study save_figure",
    "adaptive.figures": "adaptive_benchmark",
    "viewer.page": "write_page",
    "store.frames": "history_frame human_frame ratings_with_people",
    "traffic.convert": "convert",
    "traffic.sample": "load_sample shipped_capture shipped_samples",
    "prompts.dataset": "load_dataset",
    "scoring": (
        "aggregate_ensemble_scores analyze_length_bias calculate_ci calculate_composite_score "
        "calculate_efficiency one_shot_score"
    ),
    "store.documents": "OutputBlob Prompt Run",
    "prompt_test": "Measurement PromptResponseTest PromptWithContext ResultType TestItem mean_result",
    "hallucination.labelled": "read_items some_items",
    "getting_started.demo": "planted_and_found",
    "hallucination.comparison": "compare_hallucination comparison_requests hallucination_tasks",
    "pipeline": "at_worst",
    "stats": ("bases_needed compare_with_people equivalence_bases reliability whole"),
}
"""Where the names that notebooks import stand; a name is looked up once."""
_MODULES = {name: module for module, names in _FROM.items() for name in names.split()}

__all__ = ["DIMENSIONS", "__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"toolkit.{_MODULES[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Return the names, for the completion of a notebook."""
    return __all__
