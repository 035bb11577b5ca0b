#!/bin/sh
# Prepares an environment of its own for the measurements: `bench/setup.sh bench` for ours (.venv-bench: the daemon as it
# ships, uvloop, and what draws the plots), `bench/setup.sh peers` for the peers (.venv-peers and bench/peers/node_modules).
#
# The environment of the tests stays as it is. Versions are pinned, files by their hash; nothing is done when all fits.
set -eu
cd "$(dirname "$0")/.."
unset PYTHONHOME PYTHONPATH

main() {
    case ${1-} in
        bench)
            prepare .venv-bench bench/requirements.lock
            if [ ! -f .venv-bench/.installed ]; then
                quietly .venv-bench/bin/python -m pip install --no-deps --no-build-isolation --editable .
                touch .venv-bench/.installed
            fi
            ;;
        peers)
            prepare .venv-peers bench/requirements-peers.lock
            prepare_node
            ;;
        *)
            echo "usage: bench/setup.sh bench|peers" >&2
            exit 2
            ;;
    esac
}

# Makes the environment $1 from the lock file $2, unless it was made from just this one.
prepare() {
    fits=$1/.fits
    if [ -f "$fits" ] && [ "$(fingerprint "$2")" = "$(cat "$fits")" ]; then
        return
    fi
    echo "setup: $1 from $2 (this once)" >&2
    rm -rf "$1"
    .venv/bin/python -m venv "$1"
    quietly "$1/bin/python" -m pip install --require-hashes -r "$2"
    fingerprint "$2" >"$fits"
}

# The peers that run on Node.js; without it they are left out, and the measuring program says so.
prepare_node() {
    if ! command -v npm >/dev/null 2>&1; then
        echo "setup: no npm on PATH: peers that run on Node.js will be left out" >&2
        return
    fi
    if [ ! -d bench/peers/node_modules ] || [ bench/peers/package-lock.json -nt bench/peers/node_modules ]; then
        echo "setup: bench/peers/node_modules (this once)" >&2
        (cd bench/peers && quietly npm ci --no-audit --no-fund && touch node_modules)
    fi
}

fingerprint() {
    pwd
    cksum "$1"
}

quietly() {
    if ! output=$("$@" 2>&1); then
        echo "$output" | tail -n 5 >&2
        echo "setup: failed: $*" >&2
        exit 1
    fi
}

main "$@"
