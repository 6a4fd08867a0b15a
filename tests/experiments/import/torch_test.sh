#!/usr/bin/env bash
# Starts trainings from the weights of torchvision's models, as torch.save writes them. It needs a Python that has
# numpy, pillow, safetensors, torch and torchvision, which take gigabytes; CI does not run it.
#
#   tests/experiments/import/torch_test.sh PYTHON
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
python=${1:?usage: tests/experiments/import/torch_test.sh PYTHON}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
./heddle --version >/dev/null || exit 1
"$python" tests/experiments/import/torch_test.py "$work"
