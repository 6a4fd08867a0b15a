#!/usr/bin/env bash
# Compares `heddle data pack` with MXNet's own reader and writer of RecordIO. It needs packages of PyPI that run with
# Python 3.11 at most, which is why it is not a part of CI.
#
#   tests/experiments/data/mxnet_test.sh [PYTHON]    a Python that has mxnet 1.9.1, numpy 1.23.5 and pillow
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=${1-}
if [[ ! $python ]]; then
  python=$work/venv/bin/python
  if ! { python3 -m venv "$work/venv" && "$python" -m pip -q install mxnet==1.9.1 numpy==1.23.5 pillow; } \
    >"$work/pip" 2>&1; then
    tail -n 3 "$work/pip"
    echo "not run: Python's packages could not be installed"
    exit 77
  fi
fi
./heddle --version >/dev/null || exit 1
mkdir "$work/files"
"$python" tests/experiments/data/mxnet_test.py "$work/files"
