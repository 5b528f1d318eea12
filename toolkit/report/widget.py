"""An app in a notebook: an anywidget runs its script, whose questions come as messages to the kernel.

All data are sent as messages: the state of a widget would be saved into the notebook.
"""

from collections.abc import Mapping
from typing import Any

import anywidget

from toolkit.report.loopback import answer_of


class AppWidget(anywidget.AnyWidget):
    """An app whose questions are answered by an object, by itself unless another is given."""

    def __init__(self, app: object = None) -> None:
        super().__init__()
        self.app = app or self
        self.last: dict[str, Any] = {}
        self.on_msg(self._on_message)

    def _on_message(self, _widget: object, question: Mapping[str, Any], _buffers: object) -> None:
        if question["ask"] != self.last.get("to"):  # else it is repeated: the answer was lost
            self.last = {"to": question["ask"], **answer_of(self.app, question)}
        self.send(self.last)
