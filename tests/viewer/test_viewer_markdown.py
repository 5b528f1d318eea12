"""Replies drawn as Markdown that can do nothing, with marks where they stand."""

from __future__ import annotations

import html
import random
import re
import time
from html.parser import HTMLParser

import pytest
from hostile_study import ATTACKS, REPLY
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.judges.focus import focus_sentences
from toolkit.viewer import markdown
from toolkit.viewer.markdown import LONGEST, TAGS, markdown_html
from toolkit.viewer.visible import visible

ALLOWED = re.compile(rf"</?(?:{'|'.join(sorted((*TAGS, 'mark')))})>|<(?:br|hr)>|<ol start=\"\d+\">")


def text_of(drawn: str) -> str:
    """Return what a person reads."""
    return html.unescape(re.sub(r"<[^>]*>", "", drawn))


def marked_in(drawn: str) -> str:
    """Return what is marked, without the white space between."""
    return " ".join(" ".join(re.findall("<mark>(.*?)</mark>", drawn, flags=re.S)).split())


def test_the_markdown_of_a_reply_is_drawn():
    """Headings, emphasis, lists, tables and code are tags."""
    drawn = markdown_html("# A\n\n**b** *c* `d`\n\n3. e\n\n|f|g|\n|-|-|\n|h|i|\n\n```sh\nj | k\n```\n\n~~l~~")
    for part in (
        "<h4>A</h4>", "<strong>b</strong> <em>c</em> <code>d</code>", '<ol start="3">', "<td>h</td>",
        "<em>sh</em>", "<pre><code>j | k\n</code></pre>", "<del>l</del>",
    ):  # fmt: skip
        assert part in drawn


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_attack_is_text(attack):
    """No tag of an attack, no attribute, no link and no picture comes out."""
    drawn = markdown_html(attack)
    assert ALLOWED.sub("", drawn).count("<") == 0
    assert "href" not in re.sub(r"&lt;.*?&gt;", "", drawn)


class Inert(HTMLParser):
    """Reads HTML as a browser would and notes whatever is more than an allowed tag; ``words`` is what is read."""

    def __init__(self, drawn: str) -> None:
        super().__init__()
        self.wrong: list[object] = []
        self.open: list[str] = []
        self.words = ""
        self.feed(drawn)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag that is not ours, and any attribute but the first number of a list."""
        number = tag == "ol" and len(attrs) == 1 and attrs[0][0] == "start" and str(attrs[0][1]).isdigit()
        if tag not in (*TAGS, "mark") or (attrs and not number):
            self.wrong.append((tag, attrs))
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Note a tag that closes another than the last one opened."""
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Keep what is read."""
        self.words += data

    def handle_comment(self, data: str) -> None:
        """Note a comment."""
        self.wrong.append(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


PIECES = (
    *ATTACKS.values(), "<", "</", ">", "/>", "<svg/onload=", "<math><mtext>", "<style>", "<template>",
    "<textarea>", "<xmp>", "<!--", "--!>", "<![CDATA[", "]]>", "<?php", "<!DOCTYPE",
    "<ol start=1 onclick=x>", "<mark onclick=x>", "</mark>", "<li>", "<details open ontoggle=x>", "&lt;",
    "&#60;", "&#x3c", "&colon;", "'", '"', "`", "``", "```\n", "```html\n", "~~~x onload=1\n", "    ", "\t",
    "\n", "\n\n", "\r", "\x00", "\x0c", "\x1b]8;;http://e\x07", "[a](", "](", ")",
    '[r]: javascript:x "title"\n', "> [name]: http://address\n", "- [name]: http://address\n", "[r]", "![",
    "<http://e.x/onclick=x>", "* ", "1. ", "99999999999. ", "> ", "# ", "====\n", "---\n", "***", "__",
    "~~", "|", "|-|-|\n", "\\", "\\<", "$$", "\ue000", "\ue001", "\ud800", "\u202e", "\u2028", " word ",
    "\u017fcript", "<\u0130mg>", "<a\nhref=x>", "<<script>>", "x" * 99,
)  # fmt: skip


def test_generated_replies_are_inert_and_whole():
    """Of six hundred drawn with one seed no tag, attribute, comment or hidden sign comes out, and no word is lost."""
    dice = random.Random(9)
    for _ in range(600):
        text = "".join(dice.choices(PIECES, k=dice.randrange(1, 40)))
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


HOSTILE = st.lists(
    st.sampled_from(
        [*ATTACKS.values(), "[a](", "![", "](javascript:x)", "<", ">", "`", "```\n", "\n", "* ", "|", "---\n", "\\",
         "&lt;script&gt;", "&#60;b&#62;", "[r]: x\n", "<!--", "<![CDATA[", "~~", "_", " word", "\ue000", "\ue001"]
    ),
    max_size=14,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(HOSTILE, st.integers(0, 60), st.integers(1, 60))
def test_no_mixture_of_attacks_gets_a_tag_through_or_loses_a_word(parts, start, length):
    """Only allowed tags, whole; every word of the reply can be read; marks are never nested or left open."""
    text = "".join(parts)
    drawn = markdown_html(text, [(min(start, len(text)), min(start + length, len(text)))])
    assert ALLOWED.sub("", drawn).count("<") == 0
    assert re.findall("</?mark>", drawn) == ["<mark>", "</mark>"] * drawn.count("<mark>")
    assert all(word in text_of(drawn) for word in re.findall("[A-Za-z]{3,}", text))


def test_the_second_wall_stands_alone(monkeypatch):
    """Were the renderer to let HTML through, the allow-list would not."""
    monkeypatch.setattr(markdown, "_markdown", lambda: lambda source: source)
    drawn = markdown_html(
        ATTACKS["script"] + ATTACKS["handler"] + ATTACKS["svg"] + ATTACKS["style"] + "<p>b</p>"
    )
    assert ALLOWED.sub("", drawn).count("<") == 0
    assert "<p>b</p>" in drawn


def test_a_parser_that_fails_leaves_the_text(monkeypatch):
    """A reply is readable whatever the parser does."""

    def broken() -> None:
        raise RecursionError

    monkeypatch.setattr(markdown, "_markdown", broken)
    assert markdown_html("**a** <b>", [(0, 5)]) == "<pre><mark>**a**</mark> &lt;b&gt;</pre>"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Isolate it. **Then** image it. Done.", "**Then** image it."),
        ("1. First of all.\n2. **Second** one.\n", "2. **Second** one."),
        ("- [ ] Open task here.\n- Other.", "- [ ] Open task here."),
        ("> Quoted words here.\n> More.", "Quoted words here."),
        ("| a | b |\n|---|---|\n| cell one | cell two |\n", "| cell one | cell two |"),
        ("See `rm -rf` now. Then [go](http://a.example/b.c?d) on.", "Then [go](http://a.example/b.c?d) on."),
        ("**Bold start. And end.** After.", "And end.**"),
        ("_All of it._ Rest.", "_All of it._"),
        ("# T\n\nLine one\ngoes on here. Next.", "Line one\ngoes on here."),
        ("a <b>x</b>. Next & more.", "Next & more."),
    ],
)
def test_a_sentence_is_marked_where_it_stands_and_its_markdown_still_drawn(text, sentence):
    """The mark holds the words of the sentence and no others."""
    start = text.index(sentence)
    drawn = markdown_html(text, [(start, start + len(sentence))])
    words = re.findall("[A-Za-z]+", sentence)
    assert re.findall("[A-Za-z]+", html.unescape(marked_in(drawn))) == words
    assert re.sub("</?mark>", "", drawn) == markdown_html(text)


def test_every_focus_sentence_of_a_hostile_reply_is_marked():
    """The marks of a real reply are as many as its focus sentences, in either view."""
    sentences = focus_sentences(REPLY, 5)
    drawn = markdown_html(REPLY, [(one.start, one.end) for one in sentences])
    assert len(sentences) == 5
    assert "<pre>" not in drawn
    for one in sentences:
        words = re.findall("[A-Za-z]{4,}", one.of(REPLY))
        assert all(word in marked_in(drawn) for word in words)


def test_a_mark_that_markdown_would_hide_shows_the_text_as_received():
    """A place inside of an address has no place in what is drawn."""
    text = "[go](http://a.example/word) on"
    drawn = markdown_html(text, [(7, 12)])
    assert drawn.startswith("<pre>")
    assert text_of(drawn) == text


def test_a_reply_that_is_too_long_is_shown_as_received():
    """No text makes the viewer wait."""
    assert markdown_html("*a* " * LONGEST).startswith("<pre>*a*")


@pytest.mark.parametrize("part", ["[", "*a ", "[a](", "> ", "<a ", "|a", "~~a", "`a", "![", "- ", "**a *b "])
def test_no_text_takes_long(part):
    """The longest text that is drawn, made of one nasty piece, takes seconds at the most."""
    started = time.perf_counter()
    markdown_html((part * LONGEST)[:LONGEST])
    assert time.perf_counter() - started < 3
