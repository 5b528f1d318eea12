"""Where the verdict stands in the reply of a judge: after its last thought, and never in a quotation.

Judges repeat the material, in their thoughts and in what they say, and the material may hold a verdict, a score or the
mark at which a thought ends. Where that leaves open which of two verdicts is the judge's, there is none.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

HOLE: Final = "\ufffc"  # stands for each character of a quotation
_NAMES: Final = (
    "think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|analysis|deliberation|scratchpad|"
    "(?:inner|internal)[_ ]monologue|chain[_ -]of[_ -]thought|cot"
)
_TAG: Final = rf"""
    [<◁]\|?(?:(?P<end>/|end_(?:of_)?)|(?:start|begin)_(?:of_)?)?(?:[a-z]+:)?(?:{_NAMES})(?:\s[^<>/\n]{{0,80}})?\|?[>▷]
    | \[(?P<end_bracket>/)?think(?:ing)?\]
    | <\|channel\|>\s*(?:(?P<end_final>final)\b|[a-z]+)[^<>\n]{{0,80}}(?:<\|constrain\|>[^<>\n]{{0,80}})?<\|message\|>
    | <\|channel>thought\b | (?P<end_channel><channel\|>)"""
"""The marks of a thought in the chat formats of today; what the final channel of harmony holds is no thought."""
_THOUGHT: Final = re.compile(_TAG, re.IGNORECASE | re.VERBOSE)
_ENDS: Final = ("end", "end_bracket", "end_final", "end_channel")
_PARTS: Final = re.compile(
    rf"""
    ^[^\S\n]*(?P<fence>`{{3,}}(?=[^`\n]*$)|~{{3,}})[^\n]*
    | (?P<block>^[^\S\n]*>[^\n]*(?:\n\s*+>[^\n]*)*)
    | <<<(?!END\b)(?P<material>[^<>\n]{{1,100}})>>>
    | (?P<mark>(?<![\w.!?;)\]}}%…\\])["'»]|[“„«‘‚‹「『＂]|(?<!`)`{{1,4}}(?!`))
    | (?P<tag>{_TAG})""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
"""What begins a quotation, and the marks of thoughts."""
_CODE: Final = {"`" * n: rf"(?<!`)`{{{n}}}(?!`)" for n in range(1, 5)}
_CLOSING: Final = {
    '"': r'(?<!\\)(?:\\\\)*"(?!\w)', "'": r"'(?!\w)", "“": "[”“]", "„": "[“”]", "«": "»", "»": "«",
    "‘": r"’(?!\w)", "‚": "[‘’]", "‹": "›", "「": "」", "『": "』", "＂": "＂", **_CODE,
}  # fmt: skip
_CLOSED: Final = {mark: re.compile(close) for mark, close in _CLOSING.items()}
_CHARACTER: Final = re.compile(r"[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_WORD: Final = re.compile(r"\w")


class _Quotation(NamedTuple):
    start: int
    end: int
    first: int  # of what is quoted, without its marks
    last: int
    sure: bool = True  # a straight mark over several lines may begin or end; a fence may have no end


def after_thoughts(text: str) -> tuple[str, ...]:
    """Return what follows the last thought; nothing where a thought does not end.

    A mark of a thought in a quotation is none. Where it is not sure that it is quoted, what follows it comes second.

    >>> after_thoughts("<think>It says </think> No.</think>Yes.")
    ('Yes.',)
    """
    start, quotations = _quotations(text)
    if start is None:
        return ()
    ends = [
        tag.end()
        for part in (quotations if start else ())
        for tag in _THOUGHT.finditer(text, part.start, part.end)
        if _ends(tag) and not (part.sure and tag.end() < part.end)
    ]
    return (text[start:], text[ends[-1] :]) if ends else (text[start:],)


def without_quotations(text: str, levels: int = 3) -> str:
    """Return a text of the same length with `HOLE` for all that it quotes; line ends stay where they are.

    Marks around the whole of it, up to some levels, are its form: a code fence, or the braces of an object.
    """
    if text.strip()[:1] == "{" and text.strip()[-1:] == "}":
        return text
    _, quotations = _quotations(text, tags=False)
    pieces, position = [], 0
    for part in quotations:
        pieces += [text[position : part.start], _CHARACTER.sub(HOLE, text[part.start : part.end])]
        position = part.end
    masked = "".join([*pieces, text[position:]])
    alone = len(quotations) == 1 and not _WORD.search(masked)
    if not alone or not levels or text.startswith("<<<", quotations[0].start):
        return masked
    (form,) = quotations
    inside = without_quotations(text[form.first : form.last], levels - 1)
    return text[: form.first] + inside + text[form.last :]


def _quotations(text: str, *, tags: bool = True) -> tuple[int | None, list[_Quotation]]:
    """Return where the last thought ends, None where it does not, and the quotations behind that place."""
    start = position = 0
    thinking = False
    quotations: list[_Quotation] = []
    alone: dict[str, int] = {}  # up to where a mark has no partner, so that no text takes long
    while part := _PARTS.search(text, position):
        position = part.end()
        # A thought may end behind a line that it quotes.
        if part["tag"] or (thinking and part["block"] and _ends_with_thought(part["block"])):
            if tags and (thinking := bool(part["tag"]) and not _ends(part)) is False:
                start = position
                quotations.clear()
        elif quotation := _quotation(text, part, alone, thinking):
            quotations.append(quotation)
            position = max(position, quotation.end)
    return (None if thinking else start), quotations


def _quotation(text: str, part: re.Match[str], alone: dict[str, int], thinking: bool) -> _Quotation | None:
    start, first = part.span()
    if part["block"]:
        return _Quotation(start, first, start, start) if text[start:first].strip() else None
    if part["material"]:
        end = text.find(mark := f"<<<END {part['material']}>>>", first)
        return _Quotation(start, len(text) if end < 0 else end + len(mark), start, start, sure=end >= 0)
    if fence := part["fence"]:
        close = re.compile(rf"^[^\S\n]*{fence}+[^\S\n]*$", re.MULTILINE).search(text, first)
        if close:
            return _Quotation(start, close.end(), first, close.start())
        # In a thought, which may end in the middle of anything, it must not hide that end.
        return None if thinking else _Quotation(start, len(text), first, len(text), sure=False)
    mark = part["mark"]
    # An apostrophe and a code span quote within their line; so does a straight mark in a thought.
    line_end = text.find("\n", first) if mark in ("'", *_CODE) or (thinking and mark == '"') else -1
    limit = len(text) if line_end < 0 else line_end
    if alone.get(mark, -1) >= limit:
        return None
    close = _CLOSED[mark].search(text, first, limit)
    if close is None:
        alone[mark] = limit
        return None
    sure = mark != '"' or "\n" not in text[start : close.end()]
    return _Quotation(start, close.end(), first, close.start(), sure)


def _ends_with_thought(block: str) -> bool:
    return any(_ends(tag) and tag.end() == len(block.rstrip()) for tag in _THOUGHT.finditer(block))


def _ends(tag: re.Match[str]) -> bool:
    return any(tag[name] for name in _ENDS)
