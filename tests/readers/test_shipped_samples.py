"""The six samples that ship are what their README and the script that made them say, and tell nothing of a machine."""

import hashlib
import platform
import re
import runpy
import struct
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from places import ROOT

import toolkit.traffic
from toolkit.hallucination.labelled import read_items
from toolkit.prompts.dataset import load_dataset
from toolkit.traffic.convert import convert
from toolkit.traffic.sample import load_sample, shipped_samples

DATA = Path(toolkit.traffic.__file__).parent / "data"
SCRIPT = ROOT / "scripts" / "make_samples.py"
NAMES = tuple(sorted(shipped_samples()))
DOCUMENTATION = [ip_network(n) for n in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
every_sample = pytest.mark.parametrize("name", NAMES)


@cache
def sample(name):
    return load_sample(name)


@cache
def script():
    return runpy.run_path(str(SCRIPT), run_name="make_samples")


def blocks(capture):
    found, at = [], 0
    while at < len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        found.append((kind, capture[at + 8 : at + length - 4]))
        at += length
    return found


def options(body, at):
    found = {}
    while at + 4 <= len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            break
        found[code] = body[at + 4 : at + 4 + length]
        at += 4 + length + -length % 4
    return found


def test_three_files_each_and_nothing_else():
    assert sorted(script()["TRAFFIC"]) == list(NAMES)
    assert len(NAMES) == 6
    wanted = {f"{name}.{kind}" for name in NAMES for kind in ("pcapng", "csv", "json")}
    assert {path.name for path in DATA.iterdir() if path.suffix != ".toml"} == wanted | {"README.md"}


@every_sample
def test_converting_again_gives_the_shipped_csv_and_its_provenance_is_that_of_the_capture(name, tmp_path):
    capture, about = DATA / f"{name}.pcapng", sample(name).about
    convert(capture, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (DATA / f"{name}.csv").read_bytes()
    assert about["capture"] == f"{name}.pcapng"
    assert about["capture_sha256"] == hashlib.sha256(capture.read_bytes()).hexdigest()
    assert about["packets"] == len(sample(name).frame)
    assert (about["truncated"], about["pseudonymised"], about["note"]) == (False, False, None)
    assert "/" not in (DATA / f"{name}.json").read_text("utf-8"), "a path of the machine that converted it"


@every_sample
def test_a_capture_tells_nothing_of_a_machine_and_its_names_are_kept_for_documentation(name):
    capture = (DATA / f"{name}.pcapng").read_bytes()
    (section, head), (interface, line), *packets = blocks(capture)
    assert (section, interface) == (0x0A0D0D0A, 1)
    assert set(options(head, 16)) == {4}  # shb_userappl
    assert options(head, 16)[4].startswith(b"Editcap")
    assert set(options(line, 8)) <= {9}  # if_tsresol
    assert {kind for kind, _ in packets} == {6}
    for _, body in packets:
        length = struct.unpack_from("<I", body, 12)[0]
        assert options(body, 20 + length + -length % 4) == {}
        assert body[20:32] == bytes(12), "a MAC address"
    for word in (b"\nDate:", b"\nServer:", platform.release().encode()):
        assert word not in capture
    frame = sample(name).frame
    assert len(capture) <= 100_000
    assert 15 <= len(frame) == len(sample(name).csv.splitlines()) - 1 <= 80
    addresses = {*frame.source, *frame.destination}
    assert all(any(ip_address(a) in net for net in DOCUMENTATION) for a in addresses)
    assert all(host.endswith(".example") for host in frame.host.dropna())
    assert {*frame.source_port, *frame.destination_port} & set(range(1024)) == {80}


@every_sample
def test_the_script_lists_every_request_and_its_reply_in_order(name):
    frame = sample(name).frame
    traffic = script()["TRAFFIC"][name]
    sent = frame[frame.method.notna()]
    assert [(r.client, r.port, r.method, r.host, r.path, r.agent) for r in traffic] == list(
        zip(sent.source, sent.source_port, sent.method, sent.host, sent.uri, sent.user_agent, strict=True)
    )
    for _, stream in frame.groupby("stream"):
        port = stream[stream.method.notna()].source_port.iloc[0]
        assert [r.status for r in traffic if r.port == port] == list(stream.status.dropna())
    waits = [r.wait for r in traffic][1:]
    assert list(sent.time.diff().dropna()) == pytest.approx(waits, abs=0.05)


def test_texts_that_ship_name_nobody():
    """Addresses of prompts and labelled answers are from the blocks for documentation, names from example domains."""
    texts = [prompt.text for prompt in load_dataset("demo").prompts]
    texts += [f"{item.question} {item.answer} {item.documents or ''}" for item in read_items("security")]
    for text in texts:
        for found in re.findall(r"\b\d{1,3}(?:\.\d{1,3}){3}\b", text):
            assert any(ip_address(found) in net for net in DOCUMENTATION) or found == "10.20.0.0", found
        for name in re.findall(r"[\w-]+(?:\.[\w-]+)*\.(?:com|net|org|au|io|example)\b", text):
            assert re.search(r"(^|\.)example\.(com|net|org)$|\.example$", name), name


def test_the_readme_counts_right_and_the_download_and_the_beacon_are_what_it_says():
    """Packets and requests; nine segments sent again; a beacon every two seconds, and not to the millisecond."""
    readme = (DATA / "README.md").read_text("utf-8")
    table = re.findall(r"^\| (\w+) \| .+ \| (\d+) \| (\d+) \|$", readme, re.M)
    counted = [(n, str(len(sample(n).frame)), str(sample(n).frame.method.count())) for n in NAMES]
    assert sorted(table) == counted
    frame = sample("slow_download").frame
    sent = frame[frame.source_port == 80].payload_length.sum()
    (download,) = script()["TRAFFIC"]["slow_download"]
    again, headers = divmod(int(sent) - len(download.content()), 1460)
    assert again == 9
    assert headers < 100
    assert "nine in all" in readme
    frame = sample("beaconing").frame
    gaps = frame[frame.host == "updates.example"].time.diff().dropna()
    assert len(gaps) == 8
    assert gaps.between(1.8, 2.2).all()
    assert gaps.std() > 0.02
