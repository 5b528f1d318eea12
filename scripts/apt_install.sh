#!/usr/bin/env bash
# apt_install.sh COMMAND PACKAGE...: install Debian packages unless the command is there; never fails, says what to do.
set -u
command=$1
command -v "$command" >/dev/null 2>&1 && exit 0
shift
say() { printf 'setup: %s\n' "$*"; }
if ! command -v apt-get >/dev/null 2>&1; then
    say "no apt-get here: install $* yourself"
    exit 0
fi
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
# One apt-get at a time: a second one would only say that the lock is taken.
if command -v flock >/dev/null 2>&1; then
    exec 9>"${TMPDIR:-/tmp}/toolkit-apt-install.$(id -u)"
    flock 9
    command -v "$command" >/dev/null 2>&1 && exit 0
fi
log=$(mktemp)
say "installing $* with apt-get"
{ $as_root apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; } >"$log" 2>&1 ||
    say "apt-get could not install $* ($(tail -n 1 "$log")); install it yourself"
rm -f "$log"
