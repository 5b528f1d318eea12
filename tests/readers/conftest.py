"""Captures for the tests of readers."""

import handmade
import pytest


@pytest.fixture
def written(tmp_path):
    """Return a function that writes frames, or the bytes of a capture, into a file and returns its path."""

    def write(frames, name="made.pcap"):
        path = tmp_path / name
        path.write_bytes(frames if isinstance(frames, bytes) else handmade.pcap(frames))
        return path

    return write
