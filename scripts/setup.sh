#!/usr/bin/env bash
# Set up what `make demo` and `make test` need: a virtual environment, tshark, the demo model.
set -eu
python=${PYTHON:-python3}
venv=${VENV:-.venv}
say() { printf 'setup: %s\n' "$*"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "Python 3.11 or newer is needed, $python is $("$python" -V 2>&1); call make PYTHON=..."
    exit 2
}
if [ ! -x "$venv/bin/python" ]; then
    say "making the environment $venv"
    "$python" -m venv "$venv" || {
        say "python3-venv is missing: apt-get install python3-venv"
        exit 2
    }
fi
say "installing the packages of constraints.txt (about 90 s the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
bash scripts/apt_install.sh tshark tshark
"$venv/bin/python" -m toolkit.models.weights
