#!/bin/sh
# Makes the worker's Python environment, pinned by requirements.txt:  setup.sh [FOLDER [REQUIREMENTS]]
#
# FOLDER is where .venv goes (default: beside this script), REQUIREMENTS another file of this folder, e.g. requirements-0.6.txt. Run it as often as you like: an environment made from the same requirements is kept.
# Prints the path of its python as the last line of stdout. Exit 2, with the reason on stderr, where it cannot be had.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
folder=${1:-$here}
requirements=$here/${2:-requirements.txt}

cannot() {
    printf 'setup.sh: cannot make the Python environment of the deepagents worker: %s\n' "$1" >&2
    exit 2
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    for each in "${PYTHON:-python3}" python3.11 python3.12 python3.13 python3.14; do
        if new_enough "$each"; then
            printf '%s\n' "$each"
            return 0
        fi
    done
    return 1
}

python=$(find_python) || cannot "no Python 3.11 or newer found (tried ${PYTHON:-python3}, python3.11 to python3.14; set PYTHON to another)"
mkdir -p -- "$folder" || cannot "the folder $folder cannot be made"
folder=$(CDPATH='' cd -- "$folder" && pwd) || exit 2
venv=$folder/.venv
stamp=$venv/.made-from
wanted=$("$python" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$requirements") ||
    cannot "$requirements cannot be read"

is_ready() { [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && "$venv/bin/python" -c '' 2>/dev/null; }

if ! is_ready; then
    # Two of these at once (tests do that) take turns; a lock left by one that was killed is taken over after ten minutes.
    lock=$folder/.venv.lock
    waited=0
    until mkdir "$lock" 2>/dev/null; do
        [ "$waited" -lt 600 ] || { rmdir "$lock" 2>/dev/null; waited=0; }
        sleep 1
        waited=$((waited + 1))
    done
    trap 'rmdir "$lock" 2>/dev/null' EXIT
    trap 'exit 2' HUP INT TERM
    if ! is_ready; then
        printf 'setup.sh: installing the pinned packages into %s (once, about a minute)\n' "$venv" >&2
        rm -rf -- "$venv"
        if ! "$python" -m venv "$venv" >&2 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            # Debian and Ubuntu keep the module in a package of its own.
            rm -rf -- "$venv"
            { apt-get update && apt-get install -y python3-venv; } >/dev/null 2>&1
        fi
        [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" >&2 || cannot "python -m venv failed (on Debian and Ubuntu: apt install python3-venv)"
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input -r "$requirements" >&2 ||
            cannot "pip could not install $requirements (no network, or no package index?)"
        printf '%s\n' "$wanted" >"$stamp"
    fi
fi
printf '%s\n' "$venv/bin/python"
