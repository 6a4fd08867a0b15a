#!/usr/bin/env bash
# Walks from photographs to what a user takes away: trains, exports, compares the embeddings in other programs, searches
# for people who were not trained, adds them to the head, and compares both runs. It needs Python's venv and packages of
# PyPI; where PyTorch can be imported, it is compared, too.
#
#   tests/experiments/export/walk_test.sh [PYTHON [FACES [EXPERIMENT]]]
#
# PYTHON has numpy, onnxruntime, pillow and safetensors; with '' it is made. FACES is a folder with one folder of photographs
# per person, such as the ORL faces; without it faces are drawn. EXPERIMENT is a file whose model is trained as it says;
# without it a small network is.
set -u
(($# < 2)) || [[ -d $2 ]] || { echo "walk_test.sh: $2: expected a folder with one folder of photographs per person" >&2; exit 2; }
(($# < 3)) || [[ -f $3 ]] || { echo "walk_test.sh: $3: expected an experiment file" >&2; exit 2; }
faces=${2:+$(cd "$2" && pwd)}
experiment=${3:+$(realpath "$3")}
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
# shellcheck source=tests/support/python.sh
source tests/support/python.sh
choose_python "${1-}" numpy onnxruntime pillow safetensors
"$python" tests/experiments/export/walk_test.py "$work" ${faces:+"$faces"} ${experiment:+"$experiment"}
