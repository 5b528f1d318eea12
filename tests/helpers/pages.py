"""What is packed inside of an exported page."""

import base64
import json
import re
import zlib

from toolkit.viewer.page import write_page


def page_of(study, runs, **how):
    """Write a page of these runs of a study, and return its path."""
    return write_page(study.plan, study.store, runs, **how)


def unpacked(page):
    """Return the data of the table, and the HTML of each run."""
    packed = re.findall("<script type='text/plain'[^>]*>(.*?)</script>", page.read_text())
    data, *parts = (json.loads(zlib.decompress(base64.b64decode(one))) for one in packed)
    return data, [html for part in parts for html in part]
