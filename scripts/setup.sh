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
say "installing the packages of constraints.txt (about 20 s the first time)"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
"$venv/bin/uv" pip install --quiet --system-certs --python "$venv/bin/python" -c constraints.txt -e '.[dev,local]' || {
    say "uv could not; pip may, where it has an index of its own (about 90 s)"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,local]'
}
# uv compiles nothing: here is compiled what every start needs, also where PYTHONDONTWRITEBYTECODE is set.
PYTHONDONTWRITEBYTECODE= "$venv/bin/python" -c \
    'import anthropic, jupyterlab, mongoengine, openai, papermill, pingouin, pyshark, seaborn, tiktoken, toolkit.cli'
# What editors check the study files of this tree with.
"$venv/bin/python" -c \
    'import json; from toolkit.study_file import StudyFile; print(json.dumps(StudyFile.model_json_schema(), indent=1))' \
    > templates/study.schema.json
bash scripts/apt_install.sh tshark tshark
"$venv/bin/python" -m toolkit.models.weights
