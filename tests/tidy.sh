#!/usr/bin/env bash
# clang-tidy over all sources but the tests, or over those that are named: `tests/tidy.sh [FILE..]`. It takes as long as
# the build does, so CI leaves it out.
set -eu -o pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-tidy-14 >/dev/null || { echo "tidy: clang-tidy-14 is not installed" >&2; exit 1; }
# Where every file is compiled by itself; nothing is built there.
cmake --preset debug -B build/tidy >/dev/null
(($#)) || mapfile -t files < <(find framework parallel layers models notebooks_export experiments -name '*.cpp')
# What clang 14 lacks of g++: its omp.h, half floats (only the size matters here) and its warnings' names.
printf '%s\0' "${files[@]-$@}" | xargs -0 -P "$(nproc)" -n 1 clang-tidy-14 --quiet -p build/tidy \
  --extra-arg=-Wno-everything --extra-arg=-D_Float16=short \
  --extra-arg=-idirafter"$(dirname "$(g++ -print-file-name=include/omp.h)")" 2>&1 |
  { grep -vE '^[0-9]+ warnings? (and [0-9]+ errors? )?generated\.$' || true; }
