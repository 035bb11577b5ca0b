#!/usr/bin/env bash
# The tests on every supported pair of Python and PostgreSQL, each Python with an environment of its own (.venv-3.12):
#   tools/matrix.sh all      everything, on each Python with each major: hours. PYTHONS="3.13" and MAJORS="14 17" choose
#   tools/matrix.sh newest   the fast tests on the newest Python and the default PostgreSQL: a minute, for CI
#   tools/matrix.sh prepare  the environment for that, and nothing else
# Arguments after that go to pytest. A Python that is not on this machine is named and left out; what fails is named last.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset DATABASE_URL DATABASE_URL_FILE

pythons=${PYTHONS:-3.11 3.12 3.13}
majors=${MAJORS:-14 15 16 17 default} # the default one is of major 18
fast=(tests/unit tests/store/test_{claim,client,finish,listener,migrate,settle,verdicts}.py
    tests/runtime/test_contract_{claim,retry}.py)
said=()
failed=0

main() {
    local form=${1-}
    [ $# -eq 0 ] || shift
    case $form in
        all) every_pair "$@" ;;
        newest) on_python "${pythons##* }" -q -n 3 --dist loadfile "${fast[@]}" "$@" ;;
        prepare) prepared "${pythons##* }" ;;
        *) echo "usage: tools/matrix.sh all|newest|prepare [pytest's arguments]" >&2 && exit 2 ;;
    esac
    printf 'matrix: %s\n' "${said[@]}" >&2
    exit "$failed"
}

every_pair() {
    local major
    for major in $majors; do
        [ "$major" = default ] || make --no-print-directory ".pg/$major" || failed=1
    done
    for version in $pythons; do
        on_python "$version" -q "--pg=$(tr ' ' , <<<"$majors")" "$@"
    done
}

on_python() {
    local version=$1
    shift
    if ! interpreter "$version" >/dev/null; then
        said+=("Python $version is not on this machine: left out")
    elif set_up "$version" && ".venv-$version/bin/python" -m pytest "$@"; then
        said+=("Python $version: passed")
    else
        said+=("Python $version: FAILED")
        failed=1
    fi
}

prepared() {
    if ! interpreter "$1" >/dev/null; then
        said+=("Python $1 is not on this machine: left out")
    elif set_up "$1"; then
        said+=("Python $1: prepared")
    else
        said+=("Python $1: FAILED")
        failed=1
    fi
}

set_up() {
    VENV=.venv-$1 PYTHON=$(interpreter "$1") tools/setup.sh dev
}

# One that starts: pyenv puts names on PATH behind which there may be nothing.
interpreter() {
    local candidate
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

main "$@"
