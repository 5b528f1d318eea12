"""Ask for URLs one after the other: a program of its own, so that a capture can end it like any other command.

It uses the standard library only, because it is started by its path, apart from the toolkit.
"""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Sequence

PATIENCE = 10.0  # seconds without a byte, a URL


def request_all(urls: Sequence[str]) -> list[str]:
    """Ask for each URL and read its reply to the end, without a proxy; an HTTP error status is a reply too."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    failed = []
    for url in urls:
        try:
            with opener.open(url, timeout=PATIENCE) as reply:
                while reply.read(65_536):
                    pass
        except urllib.error.HTTPError as error:
            error.read()
            error.close()
        except (OSError, ValueError) as error:
            failed.append(f"{url}: no reply ({getattr(error, 'reason', error)})")
    return failed


if __name__ == "__main__":
    complaints = request_all(sys.argv[1:])
    print("\n".join(complaints), file=sys.stderr)
    sys.exit(bool(complaints))
