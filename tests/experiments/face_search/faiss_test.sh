#!/usr/bin/env bash
# Compares the neighbours that `heddle search` finds with those of FAISS. It needs Python's venv and packages of PyPI.
#
#   tests/experiments/face_search/faiss_test.sh [PYTHON]    a Python that has numpy and faiss-cpu
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
# shellcheck source=tests/support/python.sh
source tests/support/python.sh
choose_python "${1-}" numpy faiss-cpu
"$python" tests/experiments/face_search/faiss_test.py "$work"
