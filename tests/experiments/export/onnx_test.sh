#!/usr/bin/env bash
# Exports models of every type and compares their embeddings in onnxruntime with `heddle embed`. It needs Python's venv
# and packages of PyPI; where PyTorch and torchvision can be imported, their models load the state dicts, too.
#
#   tests/experiments/export/onnx_test.sh [PYTHON]    a Python that has numpy, onnxruntime, pillow and safetensors
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
# shellcheck source=tests/support/python.sh
source tests/support/python.sh
choose_python "${1-}" numpy onnxruntime pillow safetensors
"$python" tests/experiments/export/onnx_test.py "$work"
