"""Tell a reply from the thoughts in it and beside it, and what a text says from what it quotes."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

# Judges repeat the material in their thoughts and in their answers, and the material may hold a verdict, a score or the
# mark that ends a thought. Where two verdicts could be the judge's, there is none.
HOLE = "\ufffc"  # stands for each character of a quotation
_NAMES = (
    "think(?:ing)?|thoughts?|reason(?:ing)?|reflect(?:ion)?|analysis|deliberation|scratchpad|"
    "(?:inner|internal)[_ ]monologue|chain[_ -]of[_ -]thought|cot"
)
_TAG = rf"""
    [<◁]\|?(?:(?P<end>/|end_(?:of_)?)|(?:start|begin)_(?:of_)?)?(?:[a-z]+:)?(?:{_NAMES})(?:\s[^<>/\n]{{0,80}})?\|?[>▷]
    | \[(?P<end_bracket>/)?think(?:ing)?\]
    | <\|channel\|>\s*(?:(?P<end_final>final)\b|[a-z]+)[^<>\n]{{0,80}}(?:<\|constrain\|>[^<>\n]{{0,80}})?<\|message\|>
    | <\|channel>thought\b | (?P<end_channel><channel\|>)"""
"""The marks of thoughts in current chat formats; the final channel of harmony is no thought."""
_THOUGHT = re.compile(_TAG, re.IGNORECASE | re.VERBOSE)
# An analysis may be part of what a prompt asked for: only with one of these names a text is searched for thoughts.
_CERTAIN = re.compile(
    r"[<◁]\W{0,9}(?:[a-z_:]*[:_])?(?:think|thought|reasoning)|\[/?think|<\|channel|<channel\|>", re.IGNORECASE
)
_ENDS = ("end", "end_bracket", "end_final", "end_channel")
_PARTS = re.compile(
    rf"""
    ^[^\S\n]*(?P<fence>`{{3,}}(?=[^`\n]*$)|~{{3,}})[^\n]*
    | (?P<block>^[^\S\n]*>[^\n]*(?:\n\s*+>[^\n]*)*)
    | <<<(?!END\b)(?P<material>[^<>\n]{{1,100}})>>>
    | (?P<mark>(?<![\w.!?;)\]}}%…\\])["'»]|[“„«‘‚‹「『＂]|(?<!`)`{{1,4}}(?!`))
    | (?P<tag>{_TAG})""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
"""The marks that begin a quotation or belong to a thought."""
_CODE = {"`" * n: rf"(?<!`)`{{{n}}}(?!`)" for n in range(1, 5)}
_CLOSING = {
    '"': r'(?<!\\)(?:\\\\)*"(?!\w)', "'": r"'(?!\w)", "“": "[”“]", "„": "[“”]", "«": "»", "»": "«",
    "‘": r"’(?!\w)", "‚": "[‘’]", "‹": "›", "「": "」", "『": "』", "＂": "＂", **_CODE,
}  # fmt: skip
_CLOSED = {mark: re.compile(close) for mark, close in _CLOSING.items()}
_CHARACTER = re.compile(r"[^\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_WORD = re.compile(r"\w")
_OF_THOUGHT = re.compile("reasoning|think|thought")
"""In a name or type of a part of a reply: a model thought here."""
_OPAQUE = re.compile(r"(?:^|_)(?:data|encrypted\w*|signature|url)$")
"""Names of what stands for a thought, a sound or a picture, and is no text."""
_LABEL = re.compile(
    "(?:^|_)(?:ids?|type|role|object|status|format|annotations|citations|logprobs|(?:finish|stop)_(?:reason|sequence))$"
)
"""Names of what a provider says of a part of a reply, and the model did not write."""


class _Quotation(NamedTuple):
    start: int
    end: int
    first: int  # of what is quoted, without its marks
    last: int
    sure: bool = True  # a straight mark over several lines may begin or end; a fence may have no end


class Written(NamedTuple):
    """What a model wrote in a reply, as its JSON shows it: each thought once, and characters of what is no text."""

    texts: list[str]
    thoughts: list[str]
    opaque: int


def written_in(raw: Mapping[str, Any]) -> Written:
    """Return all that a reply shows of what its model wrote, the reply itself, calls of tools and thoughts among it."""
    texts: list[str] = []
    thoughts: list[str] = []
    opaque = 0
    # Without recursion: what a server sends may be nested as deeply as it likes.
    ahead: list[tuple[Any, bool, bool]] = [(raw.get(root), False, False) for root in ("content", "choices")]
    while ahead:
        value, is_thought, is_argument = ahead.pop()
        if isinstance(value, list):
            ahead += [(part, is_thought, is_argument) for part in reversed(value)]
        elif isinstance(value, Mapping):
            kind = value.get("type")
            kind = kind if isinstance(kind, str) else ""
            if not is_argument and kind.endswith("result"):  # of a tool: the model has read it
                continue
            is_thought = is_thought or bool(_OF_THOUGHT.search(kind))
            for name, part in reversed([*value.items()]):
                if is_argument:
                    ahead += [(part, is_thought, True), (name, is_thought, True)]
                elif _OPAQUE.search(name) and isinstance(part, str):
                    opaque += len(part)
                elif not _LABEL.search(name):
                    thinks = is_thought or bool(_OF_THOUGHT.search(name))
                    ahead.append((part, thinks, name in ("arguments", "input")))
        elif (value and isinstance(value, str)) or (is_argument and value is not None):
            (thoughts if is_thought else texts).append(str(value))
    # Servers send one thought under several names, whole and in pieces.
    longest = max(thoughts, key=len, default="")
    pieces = [thought for thought in dict.fromkeys(thoughts) if thought is longest or thought not in longest]
    return Written(texts, pieces, opaque)


def split_thoughts(text: str) -> tuple[str, str]:
    r"""Return a reply without the thoughts in it, and the thoughts; a mark inside a quotation does not count.

    A thought that does not end takes the rest of the text, one that does not begin what stands before its end.

    >>> split_thoughts("<think>Which host?</think>\n\nIsolate the host."), split_thoughts("<think>Which")
    (('Isolate the host.', '<think>Which host?</think>'), ('', '<think>Which'))
    """
    if not _CERTAIN.search(text):
        return text, ""
    replies: list[str] = []
    thoughts: list[str] = []
    start, position, thinking = 0, 0, False
    alone = set[tuple[str, int]]()
    while part := _PARTS.search(text, position):
        position = part.end()
        is_end = _ends(part) if part["tag"] else bool(part["block"]) and _ends_with_thought(part["block"])
        if part["tag"] and not is_end:
            if not thinking:
                replies.append(text[start : part.start()])
                start, thinking = part.start(), True
        elif is_end and (thinking or (part["tag"] and not _THOUGHT.search(text, 0, part.start()))):
            thoughts.append(text[start:position])
            start, thinking = position, False
        elif not part["tag"] and (quotation := _quotation(text, part, alone, thinking)):
            position = max(position, quotation.end)
    (thoughts if thinking else replies).append(text[start:])
    reply = "".join(replies)
    return (reply.lstrip("\n") if thoughts else reply), "".join(thoughts)


def after_thoughts(text: str) -> tuple[str, ...]:
    """Return the text after the last thought; nothing where a thought does not end.

    A mark inside a quotation does not count. Where it is not sure that a mark is quoted, the text after it is second.

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
    """Return a text of the same length with `HOLE` for each quoted character; line ends stay.

    Marks around the whole text, such as a code fence, are its form and no quotation, down to some levels.
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
    """Return where the last thought ends, ``None`` where it does not, and the quotations after it."""
    start = position = 0
    thinking = False
    quotations: list[_Quotation] = []
    alone = set[tuple[str, int]]()  # marks without a partner up to a position: keeps the search linear
    while part := _PARTS.search(text, position):
        position = part.end()
        # A thought may end in a quoted line.
        if part["tag"] or (thinking and part["block"] and _ends_with_thought(part["block"])):
            if tags and (thinking := bool(part["tag"]) and not _ends(part)) is False:
                start = position
                quotations.clear()
        elif quotation := _quotation(text, part, alone, thinking):
            quotations.append(quotation)
            position = max(position, quotation.end)
    return (None if thinking else start), quotations


def _quotation(
    text: str, part: re.Match[str], alone: set[tuple[str, int]], thinking: bool
) -> _Quotation | None:
    start, first = part.span()
    if part["block"]:
        return _Quotation(start, first, start, start) if text[start:first].strip() else None
    if part["material"]:
        close = re.compile(re.escape(f"<<<END {part['material']}>>>")).search(text, first)
        return _Quotation(start, close.end() if close else len(text), start, start, sure=bool(close))
    if fence := part["fence"]:
        close = re.compile(rf"^[^\S\n]*{fence}+[^\S\n]*$", re.MULTILINE).search(text, first)
        if close:
            return _Quotation(start, close.end(), first, close.start())
        # An open fence in a thought must not hide the end of the thought.
        return None if thinking else _Quotation(start, len(text), first, len(text), sure=False)
    mark = part["mark"]
    # Apostrophes, code spans, and straight marks in a thought quote within one line.
    is_short = mark in ("'", *_CODE) or (thinking and mark == '"')
    line_end = text.find("\n", first) if is_short else -1
    limit = line_end % (len(text) + 1)  # where there is none, -1, the end of the text
    if (mark, limit) in alone:
        return None
    close = _CLOSED[mark].search(text, first, limit)
    if close is None:
        alone.add((mark, limit))
        return None
    sure = mark != '"' or "\n" not in text[start : close.end()]
    return _Quotation(start, close.end(), first, close.start(), sure)


def _ends_with_thought(block: str) -> bool:
    return any(_ends(tag) and tag.end() == len(block.rstrip()) for tag in _THOUGHT.finditer(block))


def _ends(tag: re.Match[str]) -> bool:
    return any(tag[name] for name in _ENDS)
