"""Text of models made visible."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.viewer.visible import marked_text, shown, spans_in_order, visible

MARKABLE = st.text(st.sampled_from("ab<&\x1b\n \u202e"), max_size=40)
PLACE = st.integers(0, 40)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc", "a\nb[U+000D]c"),
        ("\x1b[31mred\x9b", "[U+001B][31mred[U+009B]"),
        ("\u202egpj.exe\u2066\u200b", "[U+202E]gpj.exe[U+2066][U+200B]"),
        ("\U000e0041\U000e0100", "[U+E0041][U+E0100]"),
        ("\ue000\ud800\u2028", "[U+E000][U+D800][U+2028]"),
        ("\x00\x7f", "[U+0000][U+007F]"),
        ("Größe 漢字 👩 é", "Größe 漢字 👩 é"),
    ],
)
def test_what_acts_or_hides_is_a_sign_and_the_rest_stays(text, seen):
    """Escapes, overrides, invisible and private signs are named; letters of any script stay."""
    assert visible(text) == seen


@given(st.text(st.characters()))
def test_nothing_hidden_is_left_in_any_text(text):
    """Whatever comes in, no control, format, private or surrogate character comes out."""
    left = {unicodedata.category(character) for character in visible(text) if character not in "\n\t"}
    assert not left & {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


@given(st.text(st.sampled_from("<>&'\"a\n\x1b")))
def test_shown_text_has_no_tag_and_no_quote(text):
    """It may stand in a tag's attribute as well as between tags."""
    assert not set(shown(text)) & set("<>'\"")
    assert html.unescape(shown(text)) == visible(text)


def test_spans_come_in_order_once_and_do_not_overlap():
    """A span that is empty or reaches into another is passed over."""
    assert spans_in_order([]) == ()
    assert spans_in_order([(4, 6), (0, 2), (4, 6), (5, 9), (3, 3)]) == ((0, 2), (4, 6))


@given(
    st.text(st.sampled_from("ab<&\x1b\n \u202e"), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4),
)
def test_marks_change_no_character_of_the_text(text, spans):
    """Without its marks the HTML is the text, wherever the marks stand."""
    bounded = [(min(a, len(text)), min(b, len(text))) for a, b in spans]
    plain = re.sub("</?mark>", "", marked_text(text, bounded))
    pieces = spans_in_order(bounded)
    assert plain == shown(text)
    assert marked_text(text, bounded).count("<mark>") == len(pieces)
