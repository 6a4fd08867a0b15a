# What tests that compare with other programs share. To be sourced in the root of the repository: builds the program, and sets
# $work, the test's folder. Scripts that Python runs can import the modules of tests/support.
# shellcheck shell=bash disable=SC2034
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./heddle --version >/dev/null || exit 1
export PYTHONPATH=$PWD/tests/support${PYTHONPATH:+:$PYTHONPATH}
choose_python() {  # choose_python PYTHON PACKAGES..: sets $python; if PYTHON is empty, it is one of a new environment
  python=$1
  [[ $python ]] && return
  python=$work/venv/bin/python
  { python3 -m venv "$work/venv" && "$python" -m pip -q install "${@:2}"; } >"$work/pip" 2>&1 && return
  tail -n 3 "$work/pip"
  echo "not run: Python's packages could not be installed"
  exit 77
}
