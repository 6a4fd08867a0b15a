#!/usr/bin/env bash
# Lets InsightFace read exported models. It needs Python's venv and packages of PyPI, among them InsightFace, which takes minutes to
# install, so that it is no step of .ci/run.
#
#   tests/experiments/export/insightface_test.sh [PYTHON]    a Python that has insightface, onnxruntime and pillow
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
# shellcheck source=tests/support/python.sh
source tests/support/python.sh
choose_python "${1-}" insightface onnxruntime pillow
"$python" tests/experiments/export/insightface_test.py "$work"
