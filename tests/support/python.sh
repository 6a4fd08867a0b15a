# The Python of the tests that compare with other programs. To be sourced; $work is the test's folder.
# Scripts that it runs can import the modules of tests/support.
# shellcheck shell=bash disable=SC2034,SC2154
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
