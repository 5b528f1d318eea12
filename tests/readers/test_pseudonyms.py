"""Pseudonyms: one key one mapping, kinds and shared prefixes kept, nothing else of an address left."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refusal

from toolkit.traffic.pseudonyms import Pseudonyms, read_key

ONE, OTHER = Pseudonyms("one key for the tests"), Pseudonyms("another key for the tests")
KINDS = ("is_loopback", "is_multicast", "is_link_local", "is_unspecified")
NETWORKS = [
    ipaddress.ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
]
addresses = st.ip_addresses()


def shared_bits(one, other, width):
    difference = int(ipaddress.ip_address(one)) ^ int(ipaddress.ip_address(other))
    return width - difference.bit_length()


@given(addresses)
def test_the_kind_of_an_address_is_kept(address):
    """Loopback, multicast, link-local, unspecified and private networks stay what they are."""
    changed = ipaddress.ip_address(ONE.address(str(address)))
    assert changed.version == address.version
    for kind in KINDS:
        assert getattr(changed, kind) == getattr(address, kind), kind
    for network in NETWORKS:
        if network.version == address.version:
            assert (changed in network) == (address in network)


GLOBAL = st.ip_addresses(v=6, network="2000::/3")


@given(st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)) | st.tuples(GLOBAL, GLOBAL))
def test_addresses_share_the_prefix_that_they_shared(pair):
    """Two addresses have as many leading bits in common as before, so no two become one."""
    one, other = map(str, pair)
    width = pair[0].max_prefixlen
    before = shared_bits(one, other, width)
    assert shared_bits(ONE.address(one), ONE.address(other), width) == before


@given(st.sets(st.integers(0, 2**48 - 1), min_size=2, max_size=20))
def test_cards_stay_apart_and_of_their_kind(numbers):
    """Different MACs stay different; group and local bits, broadcast and zero are kept."""
    before = [number.to_bytes(6, "big").hex(":") for number in numbers]
    after = [ONE.address(text) for text in before]
    assert len(set(after)) == len(before)
    for old, new in zip(before, after, strict=True):
        assert int(old[:2], 16) & 3 == int(new[:2], 16) & 3
    assert ONE.address("ff:ff:ff:ff:ff:ff") == "ff:ff:ff:ff:ff:ff"


def test_exact_values_do_not_change_between_versions():
    """The mapping is part of the format; another key has another one, and no key shows in a traceback."""
    assert OTHER.address("8.8.8.8") != ONE.address("8.8.8.8") != "8.8.8.8"
    assert "tests" not in repr(ONE)
    assert Pseudonyms("k").address("8.8.8.8") == "8.184.152.58"
    assert Pseudonyms("k").address("2001:db8::1") == "2287:5f32:38fb:a03f:a9ff:3966:31f0:fe90"
    assert Pseudonyms("k").address("02:00:00:00:00:0a") == "02:1c:47:68:df:c9"


@pytest.mark.parametrize("text", [
    "http://93.184.216.34:80/x", "next=http%3A%2F%2F93.184.216.34%2F", "q=%2593.184.216.34",
    "93%2E184%2E216%2E34", "[2001:4860::8888]:8080", "to=2001%3A4860%3A%3A8888&x=1", "card=3c:22:fb:01:02:03",
    "card=3C-22-FB-01-02-03", "www.93.184.216.34.nip.io", "ends with 93.184.216.34.",
])  # fmt: skip
def test_an_address_inside_a_text_is_found(text):
    changed = ONE.text(text).lower()
    for original in ("93.184.216.34", "2001:4860", "2001%3a4860", "3c:22:fb", "3c-22-fb", "93%2e184"):
        assert original not in changed


@pytest.mark.parametrize("carrier", ["::ffff:", "64:ff9b::"])
@pytest.mark.parametrize("written", ["93.184.216.34", "5db8:d822"])
def test_an_ipv4_address_in_ipv6_or_in_a_text_is_mapped_once_and_as_it_is_alone(carrier, written):
    """In a column and in a text, written with dots or in hex, the tie between the addresses stays."""
    inner = ONE.address("93.184.216.34")
    assert ONE.text("/to/93.184.216.34/") == f"/to/{inner}/"
    assert ONE.address(carrier + written) == carrier + inner
    text = ONE.text(f"http://[{carrier}{written}]:80/?to=93.184.216.34")
    assert text == f"http://[{carrier}{inner}]:80/?to={inner}"


@pytest.mark.parametrize(
    "text", ["", "/v/1.2.3", "12:30:45", "std::string", "1.2.3.256", "1.2.3.4.5", "shop.example"]
)
def test_what_is_no_address_stays(text):
    """In a user agent Product/1.2.3.4 is a version; an address beside it is still replaced."""
    assert ONE.text(text) == text
    agent = ONE.text("Mozilla/5.0 Chrome/120.0.0.0 (93.184.216.34)", versions=True)
    assert agent.startswith("Mozilla/5.0 Chrome/120.0.0.0 (")
    assert "93.184" not in agent


def test_a_key_is_needed(tmp_path):
    file = tmp_path / "key"
    for content, says in ((None, "cannot be read"), (" \n", "holds no key")):
        if content:
            file.write_text(content)
        refusal(says, read_key, file)
    file.write_text("secret\n")
    assert read_key(file) == "secret"
    refusal("key is empty", Pseudonyms, "")


def test_addresses_that_have_no_pseudonym_are_named():
    """Those that name no machine, however they are written and wherever they stand; no other address and no word."""
    pseudonyms = Pseudonyms("key")
    for cell in [
        "127.0.0.1",
        "192.0.2.7",
        "FF:FF:FF:FF:FF:FF",
        "02:00:5e:00:53:01",
        "2001:db8::7",
        "localhost",
    ]:
        pseudonyms.address(cell)
    pseudonyms.text("GET http://[0:0:0:0:0:0:0:1]:80/?a=127%2e0%2e0%2e1&b=255.255.255.255&c=10.0.0.9")
    expected = {"127.0.0.1", "ff:ff:ff:ff:ff:ff", "::1", "255.255.255.255"}
    assert pseudonyms.unchanged == expected
    assert pseudonyms == Pseudonyms("key")
