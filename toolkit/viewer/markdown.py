"""Renders a reply as sanitised Markdown: headings, lists, tables and code, and nothing that can act.

Two barriers: the renderer escapes all HTML and makes no links or pictures, and nh3 allows a list of tags only.
Marks are set in the text of the finished HTML, never inside a tag.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, cast

import mistune
import nh3

from toolkit.report.visible import Span, marked_text, spans_in_order, visible

LONGEST = 60_000
"""Longest rendered reply, in characters. A longer one, or one that cannot be rendered, is shown as received."""
_BLOCKS = ("p", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "hr", "br")
_TABLE = ("table", "thead", "tbody", "tr", "th", "td")
TAGS = frozenset((*_BLOCKS, *_TABLE, "code", "strong", "em", "del"))
_OPEN, _CLOSE = "\ue000", "\ue001"  # of private use: `visible` leaves none in the text
_LEAD = re.compile(r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?|\|[ \t]*)?[*_~`]*")
"""Markup that must begin a line or word; a mark before it would undo it."""
_TAG = re.compile(r"(<[^>]*>)")
_MARKS = re.compile(f"([{_OPEN}{_CLOSE}])")


class _TextRenderer(mistune.HTMLRenderer):
    def link(self, text: str, url: str, title: str | None = None) -> str:
        return f"{text}{self._address(url, title)}"

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return f"[picture: {text}]{self._address(url, title)}"

    def block_code(self, code: str, info: str | None = None) -> str:
        # The name of the language may be any text.
        named = f"<p><em>{mistune.escape(info.strip())}</em></p>\n" if info and info.strip() else ""
        return f"{named}<pre><code>{mistune.escape(code)}</code></pre>\n"

    def heading(self, text: str, level: int, **attrs: object) -> str:
        # Below the headings of the page.
        tag = f"h{min(level + 3, 6)}"
        return f"<{tag}>{text}</{tag}>\n"

    def _address(self, url: str, title: str | None) -> str:
        named = f' "{title}"' if title else ""
        return f" <code>{mistune.escape(f'({url}{named})')}</code>"


def markdown_html(text: str, spans: Iterable[Span] = ()) -> str:
    """Return a reply as safe HTML with its Markdown rendered and spans marked."""
    ordered = spans_in_order(spans)
    rendered = _render(_with_marks(text, ordered)) if len(text) <= LONGEST else None
    marked = _marked(rendered, len(ordered)) if rendered is not None else None
    return f"<pre>{marked_text(text, ordered)}</pre>" if marked is None else marked


def _render(source: str) -> str | None:
    # The parser may fail on hostile text; the reply is then shown as received.
    try:
        rendered = _markdown()(source)
    except Exception:
        return None
    return nh3.clean(rendered, tags=set(TAGS), attributes={"ol": {"start"}}, link_rel=None)


@cache
def _markdown() -> Callable[[str], str]:
    markdown = mistune.create_markdown(
        renderer=_TextRenderer(escape=True), plugins=["table", "strikethrough"]
    )
    # Definitions of links and backslashes of paths or formulas would vanish. Lists and quotations have their own rules.
    for rules in (markdown.block.rules, markdown.block.list_rules, markdown.block.block_quote_rules):
        rules.remove("ref_link")
    markdown.inline.register("escape", None, _as_written)
    return cast(Callable[[str], str], markdown)


def _as_written(inline: Any, match: re.Match[str], state: Any) -> int:
    inline.process_text(match[0], state, parse_emphasis=False)
    return match.end()


def _with_marks(text: str, spans: Sequence[Span]) -> str:
    parts, at = [], 0
    for start, end in spans:
        lead = _LEAD.match(text, start, end)
        first = lead.end() if lead else start
        last = first + len(text[first:end].rstrip("*_~`| \t"))
        parts += [visible(text[at:first]), _OPEN, visible(text[first:last]), _CLOSE]
        at = last
    return "".join([*parts, visible(text[at:])])


def _marked(rendered: str, count: int) -> str | None:
    """Return the HTML with text between signs in ``mark``; ``None`` where Markdown lost or moved a sign."""
    parts: list[str] = []
    inside, signs = False, 0
    for piece in _TAG.split(rendered):
        if piece.startswith("<"):
            parts.append(piece)
            continue
        for text in _MARKS.split(piece):
            if text in (_OPEN, _CLOSE):
                if inside == (text == _OPEN):
                    return None
                inside, signs = not inside, signs + 1
            else:
                # One mark for each text node, so that no mark crosses a tag.
                parts.append(f"<mark>{text}</mark>" if inside and text.strip() else text)
    return "".join(parts) if signs == 2 * count and not inside else None
