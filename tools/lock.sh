#!/usr/bin/env bash
# Writes the lock files anew from pyproject.toml: every version pinned, every file by its hash, and no index's address.
#   requirements.lock      what `make run` installs
#   requirements-dev.lock  what `make test` and `make check` install: the same versions, and the tools
#   bench/*.lock           what `make bench` and `make bench-peers` install, each into an environment of its own
# Arguments go to uv, such as --upgrade or --upgrade-package NAME.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if command -v uv >/dev/null 2>&1; then
    uv=(uv)
else
    tools/setup.sh dev
    .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
    uv=(.venv/bin/python -m uv)
fi

compile() {
    "${uv[@]}" pip compile --quiet --universal --generate-hashes --no-header --no-emit-index-url "$@"
}

compile --group build --extra demo --extra uvloop --output-file requirements.lock "$@" pyproject.toml
compile --group build --extra dev --constraints requirements.lock --output-file requirements-dev.lock "$@" pyproject.toml
compile --group build --extra embedded --extra uvloop --constraints requirements-dev.lock \
    --output-file bench/requirements.lock "$@" pyproject.toml bench/requirements.in
compile --python-version 3.11 --output-file bench/requirements-peers.lock "$@" bench/requirements-peers.in
