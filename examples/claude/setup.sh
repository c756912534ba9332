#!/bin/sh
# Installs the Claude Code CLI, pinned by package.json:  setup.sh [FOLDER]
#
# FOLDER is where node_modules goes (default: beside this script). Run it as often as you like: what is installed is kept.
# Prints the path of the CLI as the last line of stdout. Exit 2, with the reason on stderr, where it cannot be had.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
folder=${1:-$here}

cannot() {
    printf 'setup.sh: cannot install the Claude Code CLI: %s\n' "$1" >&2
    exit 2
}

mkdir -p -- "$folder" || cannot "the folder $folder cannot be made"
folder=$(CDPATH='' cd -- "$folder" && pwd) || exit 2
stamp=$folder/node_modules/.made-from
version=$(sed -n 's/.*"@anthropic-ai\/claude-code": "\([0-9.]*\)".*/\1/p' "$here/package.json")

# The package for this system holds the program itself; the one that names it only a place for it.
find_program() {
    for each in "$folder"/node_modules/@anthropic-ai/claude-code-*/claude "$folder/node_modules/.bin/claude"; do
        if [ -x "$each" ] && [ "$("$each" --version 2>/dev/null | cut -d' ' -f1)" = "$version" ]; then
            printf '%s\n' "$each"
            return 0
        fi
    done
    return 1
}

is_ready() { [ "$(cat "$stamp" 2>/dev/null)" = "$version" ] && program=$(find_program); }

if ! is_ready; then
    command -v npm >/dev/null 2>&1 || cannot "no npm found (install Node.js 20 or newer)"
    # Two of these at once (tests do that) take turns; a lock left by one that was killed is taken over after ten minutes.
    lock=$folder/.npm.lock
    waited=0
    until mkdir "$lock" 2>/dev/null; do
        [ "$waited" -lt 600 ] || { rmdir "$lock" 2>/dev/null; waited=0; }
        sleep 1
        waited=$((waited + 1))
    done
    trap 'rmdir "$lock" 2>/dev/null' EXIT
    trap 'exit 2' HUP INT TERM
    if ! is_ready; then
        printf 'setup.sh: installing the Claude Code CLI %s into %s (once, about 400 MB)\n' "$version" "$folder" >&2
        [ "$folder" = "$here" ] || cp -- "$here/package.json" "$folder/package.json" || cannot "$folder cannot be written"
        npm install --prefix "$folder" --no-package-lock --no-audit --no-fund --loglevel=error >&2 ||
            cannot "npm could not install it (no network, or no registry?)"
        program=$(find_program) || cannot "npm installed no program that runs here and is version $version"
        printf '%s\n' "$version" >"$stamp"
    fi
fi
printf '%s\n' "$program"
