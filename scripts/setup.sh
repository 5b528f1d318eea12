#!/usr/bin/env bash
# Set up what `make demo` and `make test` need: a virtual environment, tshark, the demo model.
set -eu
python=${PYTHON:-python3}
venv=${VENV:-.venv}
say() { printf 'setup: %s\n' "$*"; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    say "Python 3.11 or newer is needed, $python is $("$python" -V 2>&1); call make PYTHON=..."; exit 2; }

if [ ! -x "$venv/bin/python" ]; then
    say "making the environment $venv"
    "$python" -m venv "$venv" || { say "python3-venv is missing: apt-get install python3-venv"; exit 2; }
fi
say "installing the packages of constraints.txt (about 90 s the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'

apt_install() {  # apt_install COMMAND PACKAGE...: install packages unless the command is there
    command -v "$1" >/dev/null 2>&1 && return
    shift
    if ! command -v apt-get >/dev/null 2>&1; then
        say "no apt-get here: install $* yourself"; return
    fi
    as_root=""
    [ "$(id -u)" = 0 ] || as_root="sudo -n"
    say "installing $* with apt-get"
    { $as_root apt-get update -qq && DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@"; } \
        >"$venv/apt.log" 2>&1 || say "apt-get could not install $* (see $venv/apt.log); install it yourself"
}
apt_install tshark tshark
if [ "${TOOLKIT_BROWSER:-}" = 1 ]; then
    apt_install chromium chromium
    apt_install chromedriver chromium-driver
fi
"$venv/bin/python" -m toolkit.models.weights
