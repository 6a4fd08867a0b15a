#!/usr/bin/env bash
# Reads the Parquet files of `heddle embed` with PyArrow, pandas and the package `heddle`. It needs Python's venv and
# packages of PyPI.
#
#   tests/experiments/export/parquet_test.sh [PYTHON]    a Python that has numpy, pandas, pillow and pyarrow
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
# shellcheck source=tests/support/python.sh
source tests/support/python.sh
choose_python "${1-}" numpy pandas pillow pyarrow
PYTHONPATH=$PWD/python:$PYTHONPATH "$python" tests/experiments/export/parquet_test.py "$work"
