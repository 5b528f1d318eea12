"""A page of this machine as a test asks for it: served in a thread, and asked without a browser or proxy."""

import contextlib
import http.client
import json
import re
import subprocess
import sys
import threading

from toolkit.words import DIMENSIONS

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)(/.*)")


@contextlib.contextmanager
def served(server, address):
    """Serve a page while the block runs; its address is the value."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


def ask(address, path=None, host=None, method="GET", body=None, **headers):
    """Ask the server of an address; returns status, headers and content."""
    port, right = ADDRESS.fullmatch(address).groups()
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
    headers |= {} if host is None else {"Host": host.format(port=port)}
    path = right if path is None else path.format(right=right)
    connection.request(method, path, body, {name: text.format(port=port) for name, text in headers.items()})
    reply = connection.getresponse()
    content = reply.read()
    connection.close()
    return reply.status, reply.msg, content


@contextlib.contextmanager
def started(*words):
    """Start a command that serves a page, in a process of its own: the process, its line, and the address."""
    with subprocess.Popen(
        [sys.executable, "-m", "toolkit", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        yield process, process.stdout.readline().strip(), process.stdout.readline().strip()


class Person:
    """What the page of a rater asks the desk, and where the round stands since."""

    def __init__(self, address, rater="anna", size=None):
        self.address, self.state = address, {"rater": rater}
        self("open", rater=rater, size=size)

    def __call__(self, what, **more):
        """Ask something, and return the error if it is none of what it asks for."""
        question = json.dumps({"what": what, "with": {"rater": self.state["rater"], **more}})
        status, _, content = ask(self.address, method="POST", body=question, Origin="http://127.0.0.1:{port}")
        assert status == 200
        answer = json.loads(content)
        self.state = answer.get("value", self.state)
        return answer.get("error")

    def __getattr__(self, name):
        """Return what is known of the reply, or of the round."""
        return {**self.__dict__["state"], **(self.__dict__["state"].get("reply") or {})}[name]

    def save(self, scores, reasons=""):
        """Save a line of scores for the reply, in the order of the dimensions; ``-`` for none."""
        given = zip(DIMENSIONS, scores.split(), strict=False)
        return self(
            "save",
            run_id=self.run_id,
            scores={name: score for name, score in given if score != "-"},
            reasons=reasons,
        )
