"""What no text of a study may hold: wrong numbers of nouns, names of nothing in Python, zeros with a minus."""

import re

_MANY = (
    "answers|bases|bins|calls|comparisons|contrasts|designs|dimensions|experiments|items|judgements|judges|kinds|levels|methods|models|"
    "pairs|people|points|prompts|questions|ratings|repeats|replies|resamples|results|rows|runs|scores|tests|values|votes"
)
_SINGULARS = "answer|base|experiment|item|judge|judgement|model|repeat|run|test"
FORBIDDEN = {
    "one of several": re.compile(
        rf"(?<![\d.,–−+-])(?<! to )\b1 (?:(?:of 1|planned|rated|duplicate) )?(?:{_MANY})\b"
    ),
    "several of one": re.compile(rf"(?<![\d.,:–-])\b(?:0|[2-9]|[1-9]\d+) (?:{_SINGULARS})\b(?!-)"),
    "either number": re.compile(r"\w\(s\)"),
    "verb of several": re.compile(r"\b1 (?:of \d+ )?\w+ (?:are|were|have|lack)\b"),
    "small letter after a full stop": re.compile(
        r"(?<! al)\. (?:no|moderate|good|poor|excellent|all|alpha|answer|base|not|technical_\w+|slope|difference)\b"
    ),
    "blanks": re.compile(r"  |\s[,;:)]|\( "),
    "punctuation": re.compile(r"\(\)|\[\]|,,|;;|[:;] \.|(?<!\.)\.\.(?!\.)"),
    "Python": re.compile(r"\b(?:nan|NaN|None|NaT|inf)\b|<NA>|[{}]|dtype"),
    "minus zero": re.compile(r"[-−]0(?:\.0+)?(?![\d.])"),
    "noise": re.compile(r"\de-\d"),
}


def badly_worded(*texts):
    """Return every place in the texts that a reader would stumble over, with what stands around it."""
    return [
        f"{rule}: …{text[max(0, found.start() - 40) : found.end() + 20]}…"
        for text in texts
        for rule, pattern in FORBIDDEN.items()
        for found in pattern.finditer(text)
    ]


def too_many_sentences(parts, note=""):
    """Return the captions of figures and tables that have more than three sentences before the note of the study."""
    split = re.compile(r"(?<=[^.]{3}[.!?]) (?=[^a-z]|n = )")
    sentences = {part.name: split.split(part.caption.removesuffix(f" {note}")) for part in parts}
    return {name: texts for name, texts in sentences.items() if len(texts) > 3}
