"""Texts of models in the viewer: made visible, drawn as Markdown that can do nothing, compared word by word."""

import html
import random
import re
import time
import unicodedata
from html.parser import HTMLParser

import pytest
import regex
from cases import FULL, cases
from hostile_study import ATTACKS
from hypothesis import given
from hypothesis import strategies as st

from toolkit.report.show import plain_text
from toolkit.report.visible import escaped, marked_text, spans_in_order, visible
from toolkit.viewer import markdown
from toolkit.viewer.markdown import LONGEST, TAGS, markdown_html
from toolkit.words import is_unseen

CASES = cases(__file__)


@pytest.mark.parametrize(("text", "seen"), CASES["seen"])  # fmt: skip
def test_what_acts_or_hides_is_a_sign_and_the_rest_stays(text, seen):
    """Escapes, overrides, invisible and private signs are named; letters of any script stay."""
    assert visible(text) == seen


IGNORABLE = regex.compile(r"\p{Default_Ignorable_Code_Point}")
NAMED = [0xFE00, 0xFE0E, 0xFE0F, 0x34F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x2800, 0x3164, 0xFFA0, 0x2065, 0xFFF0, 0xE0FFF,
         0x16FE4, 0x1D159, 0xFFFE, 0x200C, 0x200D, 0xAD]  # fmt: skip


@pytest.mark.parametrize("around", ["ab", "क x", *(FULL(text) for text in ("1 ", "漢字", "  "))])
def test_a_letter_that_nobody_sees_is_a_sign_by_its_property(around):
    """Every code point that Unicode says to leave undrawn, and letters that are drawn blank; prose leaves them out."""
    unseen = {code for code in range(0x110000) if IGNORABLE.match(chr(code))} | set(NAMED)
    text = "".join(f"{around[0]}{chr(code)}{around[1:]}" for code in sorted(unseen))
    assert visible(text) == "".join(f"{around[0]}[U+{code:04X}]{around[1:]}" for code in sorted(unseen))
    kept = "".join(f"{around[0]}{chr(0xFFFE) * (code == 0xFFFE)}{around[1:]}" for code in sorted(unseen))
    assert plain_text(text) == kept


@pytest.mark.parametrize("text", [
    "❤️ ©️ ☎︎ 1️⃣ #️⃣", "👍🏽 👨‍👩‍👧 🏳️‍🌈 👩🏽‍💻", "می‌خواهم", "क्‍ष क्‌ष", "ශ්‍රී ලංකා", "한국어 ภาษาไทย ᠮᠣᠩᠭᠣᠯ", "ñ Å x̄",
])  # fmt: skip
def test_selectors_and_joiners_stay_where_they_change_what_is_seen(text):
    """Emoji, and joiners as RFC 5892 allows them in names of domains."""
    assert visible(text) == text


@pytest.mark.parametrize(("text", "seen"), CASES["joined"])  # fmt: skip
def test_selectors_and_joiners_that_could_carry_a_text_are_signs(text, seen):
    """After a letter, twice, or where nothing is joined."""
    assert visible(text) == seen


@given(st.text(st.characters() | st.sampled_from("aم्❤1\ufe0f\u200c\u200d")))
def test_nothing_hidden_is_left_in_any_text(text):
    """But a selector or joiner after what it changes, never two of them together."""
    seen = visible(text)
    left = [place for place, sign in enumerate(seen) if sign not in "\n\t" and is_unseen(sign)]
    assert {seen[place] for place in left} <= set("\ufe0e\ufe0f\u200c\u200d")
    assert not any(seen[place] == seen[place - 1] for place in left)
    assert not {unicodedata.category(sign) for sign in seen} & {"Co", "Cs", "Zl", "Zp"}


@given(st.text(st.sampled_from("<>&'\"a\n\x1b")))
def test_shown_text_has_no_tag_and_no_quote(text):
    """It may stand in a tag's attribute as well as between tags."""
    assert not set(escaped(text)) & set("<>'\"")
    assert html.unescape(escaped(text)) == visible(text)


@given(
    st.text(st.sampled_from("ab<&\x1b\n \u202e"), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4),
)
def test_marks_change_no_character_of_the_text(text, spans):
    """Without its marks the HTML is the text, wherever the marks stand."""
    bounded = [(min(a, len(text)), min(b, len(text))) for a, b in spans]
    plain = re.sub("</?mark>", "", marked_text(text, bounded))
    pieces = spans_in_order(bounded)
    assert plain == escaped(text)
    assert marked_text(text, bounded).count("<mark>") == len(pieces)
    # A span that is empty or reaches into another is passed over.
    assert spans_in_order([(4, 6), (0, 2), (4, 6), (5, 9), (3, 3)]) == ((0, 2), (4, 6))


ALLOWED = re.compile(rf"</?(?:{'|'.join(sorted((*TAGS, 'mark')))})>|<(?:br|hr)>|<ol start=\"\d+\">")


def test_the_markdown_of_a_reply_is_drawn():
    drawn = markdown_html("# A\n\n**b** *c* `d`\n\n3. e\n\n|f|g|\n|-|-|\n|h|i|\n\n```sh\nj | k\n```\n\n~~l~~")
    for part in (
        "<h4>A</h4>", "<strong>b</strong> <em>c</em> <code>d</code>", '<ol start="3">', "<td>h</td>",
        "<em>sh</em>", "<pre><code>j | k\n</code></pre>", "<del>l</del>",
    ):  # fmt: skip
        assert part in drawn


class Inert(HTMLParser):
    """Reads HTML as a browser would and notes whatever is more than an allowed tag; ``words`` is what is read."""

    def __init__(self, drawn):
        super().__init__()
        self.wrong = []
        self.open = []
        self.words = ""
        self.feed(drawn)
        self.close()

    def handle_starttag(self, tag, attrs):
        number = tag == "ol" and len(attrs) == 1 and attrs[0][0] == "start" and str(attrs[0][1]).isdigit()
        if tag not in (*TAGS, "mark") or (attrs and not number):
            self.wrong.append((tag, attrs))
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data):
        self.words += data

    def handle_comment(self, data):
        self.wrong.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


PIECES = CASES["pieces"]  # fmt: skip


def test_replies_are_inert_and_whole():
    """Of six hundred mixtures of attacks no tag, attribute, comment or hidden sign comes out, and no word is lost."""
    dice = random.Random(9)
    mixtures = ("".join(dice.choices(PIECES, k=dice.randrange(1, 40))) for _ in range(600))
    for text in (*ATTACKS.values(), *mixtures):
        places = [dice.randrange(len(text) + 1) for _ in range(2)]
        drawn = markdown_html(text, [(min(places), max(places))])
        seen = Inert(drawn)
        assert (seen.wrong, seen.open) == ([], []), text
        assert drawn == visible(drawn)
        assert [word for word in re.findall("[a-z]{4,}", text) if word not in seen.words] == [], text


@pytest.mark.parametrize("lead", ["", "> ", "- ", "1. ", "> - "])
def test_the_address_of_a_reference_can_be_read_wherever_it_stands(lead):
    """Lists and quotations have rules of their own; Markdown would leave out the whole line."""
    drawn = markdown_html(f'{lead}First.\n{lead}[mitre]: https://attack.example/T1566 "Phishing"\n')
    assert '[mitre]: https://attack.example/T1566 "Phishing"' in html.unescape(drawn)


def test_the_second_wall_stands_alone(monkeypatch):
    """Were the renderer to let HTML through, the allow-list would not."""
    monkeypatch.setattr(markdown, "_markdown", lambda: lambda source: source)
    drawn = markdown_html(
        ATTACKS["script"] + ATTACKS["handler"] + ATTACKS["svg"] + ATTACKS["style"] + "<p>b</p>"
    )
    assert ALLOWED.sub("", drawn).count("<") == 0
    assert "<p>b</p>" in drawn


def test_a_parser_that_fails_leaves_the_text(monkeypatch):
    def broken():
        raise RecursionError

    monkeypatch.setattr(markdown, "_markdown", broken)
    assert markdown_html("**a** <b>", [(0, 5)]) == "<pre><mark>**a**</mark> &lt;b&gt;</pre>"


@pytest.mark.parametrize(("text", "sentence"), CASES["sentence"])  # fmt: skip
def test_a_sentence_is_marked_where_it_stands_and_its_markdown_still_drawn(text, sentence):
    """The mark holds the words of the sentence and no others."""
    start = text.index(sentence)
    drawn = markdown_html(text, [(start, start + len(sentence))])
    words = re.findall("[A-Za-z]+", sentence)
    marked = " ".join(re.findall("<mark>(.*?)</mark>", drawn, flags=re.S))
    assert re.findall("[A-Za-z]+", html.unescape(marked)) == words
    assert re.sub("</?mark>", "", drawn) == markdown_html(text)


def test_a_mark_that_markdown_would_hide_shows_the_text_as_received():
    text = "[go](http://a.example/word) on"
    drawn = markdown_html(text, [(7, 12)])
    assert drawn.startswith("<pre>")
    assert Inert(drawn).words == text


@pytest.mark.parametrize("part", ["[", "*a ", "[a](", "> ", "<a ", "|a", "~~a", "`a", "![", "- ", "**a *b "])
def test_no_text_takes_long(part):
    """The longest text that is drawn, of one nasty piece, takes seconds at most; a longer one is as received."""
    started = time.process_time()
    markdown_html((part * LONGEST)[:LONGEST])
    assert time.process_time() - started < 3
    assert markdown_html("*a* " * LONGEST).startswith("<pre>*a*")
