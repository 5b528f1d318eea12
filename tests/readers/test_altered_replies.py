"""Altered replies: longer without saying more, with one error, in another order, attacked, and never the original."""

import re

import pytest
from cases import cases
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.models.tokens import count_tokens
from toolkit.probes.alterations import KINDS, SINGLE_PARAGRAPH, Altering, shipped_attacks
from toolkit.probes.alterations import probes_of as made_of

CASES = cases(__file__)

REPLY = """## Containment

Isolate HOST-22 within 15 minutes and block outbound traffic on port 443/tcp.

Steps:

1. **Isolate** the host.
   Do not power it off.
2. Capture memory.
3. Revoke sessions.

```bash
# run this:

iptables -A OUTPUT -j DROP
```

Map it to ISO/IEC 27001 and T1566; CVE-2021-44228 has critical severity."""


def probes_of(text, seed, attacks=()):
    return made_of(Altering(text, seed, attacks))


def lines(text):
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def one(kind, text, seed=1):
    (probe,) = KINDS[kind](Altering(text, seed))
    return probe


def test_each_kind_once_and_one_probe_for_each_attack_in_a_fixed_order():
    attacks = shipped_attacks()[:3]
    probes = probes_of(REPLY, 5, attacks=attacks)
    assert [probe.kind for probe in probes] == [*list(KINDS)[:3], *["attacked"] * 3]
    assert [probe.variant for probe in probes[3:]] == [attack.attack_id for attack in attacks]
    assert probes == probes_of(REPLY, 5, attacks)
    assert probes != probes_of(REPLY, 6, attacks=attacks)


@pytest.mark.parametrize("seed", range(12))
def test_padding_adds_about_half_the_tokens_and_keeps_every_line(seed):
    """At least +50 %, at most one sentence more; the lines of the reply stand there in their order."""
    probe = one("padded", REPLY, seed)
    before, after = count_tokens(REPLY), count_tokens(probe.text)
    assert 1.45 * before <= after <= 1.5 * before + 30
    left = iter(lines(probe.text))
    assert all(line in left for line in lines(REPLY))


@pytest.mark.parametrize(("text", "variant", "was", "now"), CASES["altered"])  # fmt: skip
def test_a_planted_error_swaps_exactly_one_fact(text, variant, was, now):
    for seed in range(8):
        found = one("planted", text, seed)
        before, after = re.fullmatch("'(.*)' became '(.*)'", found.detail).groups()
        assert (found.variant, before) == (variant, was)
        assert re.fullmatch(now, after)
        assert found.text == text.replace(was, after, 1) != text


def test_paragraphs_move_and_nothing_is_lost_or_cut():
    """Headings and lead-ins stay above what they introduce, items keep their numbers and lines, code stays whole."""
    orders = set()
    for seed in range(20):
        text = one("shuffled", REPLY, seed).text
        assert text is not None
        assert lines(text) != lines(REPLY)
        assert sorted(lines(text)) == sorted(lines(REPLY))
        assert "## Containment\n\nIsolate HOST-22" in text
        assert "1. **Isolate** the host.\n   Do not power it off." in text
        assert "```bash\n# run this:\n\niptables -A OUTPUT -j DROP\n```" in text
        assert re.search(r"Steps:\n\n[123]\. ", text)
        orders.add(text)
    assert len(orders) > 10
    assert one("shuffled", "1. Isolate.\n2. Report.").text == "2. Report.\n1. Isolate."


@pytest.mark.parametrize(
    "text", ["One paragraph.\nTwo lines of it.", "Steps:\n1. Only one.", "a\n\na\n\na", "```\na\n\nb\n```"]
)
def test_what_has_no_other_order_is_missing_with_its_reason(text):
    """One paragraph, one item, equal paragraphs, one block of code."""
    probe = one("shuffled", text)
    assert (probe.text, probe.reason) == (None, SINGLE_PARAGRAPH)


@settings(max_examples=150)
@given(st.text(alphabet=st.sampled_from("ab.:#-12)`\n\n \t\r汉"), max_size=80), st.integers(0, 3))
def test_a_probe_is_never_the_original_and_shuffling_loses_nothing(text, seed):
    """Whatever the reply: an altered text differs, or there is none and a reason."""
    for probe in probes_of(text, seed, attacks=shipped_attacks()[:2]):
        assert (probe.text is None) == (probe.reason is not None)
        assert probe.text is None or probe.text != text
    moved = one("shuffled", text, seed).text
    if moved is not None:
        assert sorted(lines(moved)) == sorted(lines(text))
        assert lines(moved) != lines(text)


def test_half_a_megabyte_of_hostile_text_is_altered_in_a_moment():
    """No pattern walks over the text again and again; the other kinds are linear too."""
    for text in ("1. a\n" * 20_000, "\n" * 100_000 + "a", "port " * 20_000, "`" * 100_000, "a:\n\n" * 20_000):
        one("planted", text), one("shuffled", text)
