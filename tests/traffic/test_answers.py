"""Answer keys: what a question file may hold, and what is refused."""

from __future__ import annotations

import pytest

from toolkit.traffic.questions import AnswerKey, answer_key


def test_a_key_of_a_question_file_is_checked_and_frozen():
    assert answer_key({"kind": "set", "value": ["/a"]}) == AnswerKey("set", ("/a",))
    assert answer_key({"kind": "number", "value": 3, "tolerance": 1}) == AnswerKey("number", 3, 1.0)
    assert answer_key({"kind": "set", "value": [1, 2]}).texts() == ("1", "2")
    assert answer_key({"kind": "regex", "value": "a|b"}).texts() == ()


@pytest.mark.parametrize(("data", "said"), [
    ({}, "a value and a kind"), ("text", "a value and a kind"), ({"kind": "exact"}, "a value and a kind"),
    ({"kind": "like", "value": "a"}, "exact, number, set"), ({"kind": "exact", "value": ""}, "must be a text"),
    ({"kind": "exact", "value": 3}, "must be a text"),
    ({"kind": "exact", "value": "a", "tolerance": 1}, "no 'tolerance'"),
    ({"kind": "number", "value": "3"}, "finite number"), ({"kind": "number", "value": True}, "finite number"),
    ({"kind": "number", "value": float("nan")}, "finite number"),
    ({"kind": "number", "value": 3, "tolerance": -1}, "0 or more"),
    ({"kind": "set", "value": "/a"}, "list of texts"), ({"kind": "set", "value": [["/a"]]}, "list of texts"),
    ({"kind": "json", "value": 3}, "name of a field"),
    ({"kind": "json", "value": {"a": 1}, "field": "x"}, "text, a number"),
    ({"kind": "regex", "value": "("}, "does not compile"),
])  # fmt: skip
def test_a_key_that_cannot_be_used_is_refused_in_one_line(data, said):
    with pytest.raises(ValueError, match=said) as caught:
        answer_key(data)
    assert "\n" not in str(caught.value)
