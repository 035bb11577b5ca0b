#!/bin/sh
# Removes the demo's data (.wakeful), caches, built files and reports; not while a demo is running on them. Keeps .venv.
set -eu
cd "$(dirname "$0")/.."

for owner in .wakeful/*/owner .wakeful/owner; do
    pid=$(cat "$owner" 2>/dev/null) || continue
    if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then
        echo "clean: ${owner%/owner} is in use by process $pid: stop it first" >&2
        exit 1
    fi
done

rm -rf .wakeful build dist reports .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage
find . -name '.venv*' -prune -o -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
