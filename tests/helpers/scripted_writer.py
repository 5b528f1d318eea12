"""A script that plays the model which writes prompts: it knows the shipped documents, and takes sentences from others.

What it says of the shipped documents was written by people (`study/data/scripted_writer.toml`): it shows that the way
from document to prompt works, and nothing about how well a model extracts.
"""

import asyncio
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import toolkit.prompts
from toolkit.authoring.documents import flat, read_documents
from toolkit.authoring.writer import base_names, save_bases, write_draft
from toolkit.judges.request import JudgeSpec
from toolkit.models.base import Answer
from toolkit.models.scripted import ScriptedModel

DATA = Path(toolkit.prompts.__file__).parent / "data"
DOCUMENTS, BASES = DATA / "documents", DATA / "from_documents"
WRITER = JudgeSpec("writer", "scripted", "scripted", "scripted", max_tokens=8000)

SHIPPED = tomllib.loads((Path(__file__).parents[1] / "study" / "data" / "scripted_writer.toml").read_text())
SENTENCE_END = re.compile(r"(?<!\s[A-Z])[.!?](?=\s|$)")
PLAIN = {
    "scenario": "SOC_INCIDENT",
    "category": "Test",
    "csf": "RESPOND",
    "opening": "You are the analyst on duty.",
    "task": "Write the note for the next shift. Give (1) what is known; (2) what is missing; (3) what to do first.",
    "elements": [f"Says what is {word}" for word in ("known", "assumed", "missing", "urgent", "next")],
}


def document_in(asked):
    """Return the document in a request to a writer."""
    found = re.search(r"<document (\w+)>\n(.*)\n</document \1>", asked, re.DOTALL)
    assert found, "no document in the request"
    return found[2]


def sentences(document):
    """Return the sentences of a document, each on one line."""
    ends = [0, *(end.end() for end in SENTENCE_END.finditer(document))]
    return [" ".join(document[a:b].split()) for a, b in pairwise(ends)]


def extraction(document):
    """Return what the script takes out of a document: as written for a shipped one, else every sentence in turn."""
    line = " ".join(document.split())
    plain = flat(document)
    for told in SHIPPED.values():
        begins = [fact.partition(": ")[2].partition(" => ")[0] for fact in told["facts"]]
        if flat(begins[0]) in plain:
            return {**told, "facts": [_fact(fact, line) for fact in told["facts"]]}
    return {
        **PLAIN,
        "facts": [{"kind": "timeline", "fact": one, "quote": one} for one in sentences(document)],
    }


def _fact(told, line):
    kind, _, rest = told.partition(": ")
    begins, _, fact = rest.partition(" => ")
    at = line.replace("\u2019", "'").index(begins)
    end = SENTENCE_END.search(line, at)
    assert end, begins
    quote = line[at : end.end()]
    return {"kind": kind, "fact": fact or quote, "quote": quote}


def scripted_reply(request):
    """Answer a request to a writer, for `toolkit.models.scripted.ScriptedModel`."""
    return json.dumps(extraction(document_in(request.messages[1].content)))


def stub_reply(body):
    """Answer a request to a writer, for `stub_server.StubServer`."""
    return json.dumps(extraction(document_in(body["messages"][1]["content"])))


def scripted(script=scripted_reply):
    """Return an ask that a script answers."""
    model = ScriptedModel(script)

    async def ask(request):
        return Answer(request.identity(), await model.ask(request), 0.0, 0.0, 1, False)

    return ask


def drafts_of(documents, ask=None):
    """Return what a script makes of documents, in their order."""

    async def write():
        named = zip(documents, base_names(documents), strict=True)
        return [await write_draft(*pair, writer=WRITER, ask=ask or scripted()) for pair in named]

    return asyncio.run(write())


if __name__ == "__main__":  # writes the bases that ship, after a document or the script was changed
    save_bases(drafts_of(read_documents(DOCUMENTS)), BASES)
