#!/usr/bin/env bash
# Everything that only a GPU can show, in one call of under eight minutes: the tests with the cuda backend,
# compute-sanitizer on the small ones, the shipped experiments on both devices, and the benchmark beside PyTorch, where
# that is installed. Writes the results as JSON; the exit code is 1 if a step failed.
#
#   tests/gpu_check.sh [FILE]      default: experiments/results/gpu/DATE_DEVICE.json
#
# It builds first, unless build/gpu.tar.gz came with the tree: `tests/gpu_check.sh --pack` collects there, on a machine
# with packages but no GPU, what another one needs (about 35 MB); copy the tree there, with that file, and call this.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
packed=$PWD/build/gpu

pack() {
  ./heddle setup cuda || exit
  ./heddle test --count >/dev/null || exit
  rm -rf "$packed"
  mkdir -p "$packed/lib"
  cp build/release/experiments/heddle build/release/tests/heddle_tests "$packed" || exit
  strip "$packed"/heddle*
  # The other machine has the C library's and CUDA's own.
  ldd "$packed/heddle" "$packed/heddle_tests" | awk '$2 == "=>" && $3 ~ "^/" {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libcud[^/]*|libcublas[^/]*|libnv[^/]*)\.so' |
    xargs -I{} cp -L {} "$packed/lib"
  tar -C build -czf build/gpu.tar.gz gpu || exit
  rm -rf "$packed"
  du -h build/gpu.tar.gz
}

case ${1-} in
  --pack) pack; exit ;;
  -h | --help) sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit ;;
  -*) echo "gpu_check: expected a file's name, --pack or --help, got $1" >&2; exit 2 ;;
esac

device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
if [[ ! $device ]]; then
  echo "gpu_check: there is no NVIDIA GPU here, or no driver with its nvidia-smi; tests/gpu_check.sh --pack makes one file" \
    "of what a machine with a GPU but no packages needs" >&2
  exit 2
fi
if [[ -f build/gpu.tar.gz ]]; then
  tar -C build -xzf build/gpu.tar.gz || exit
  export LD_LIBRARY_PATH=$packed/lib:/usr/local/cuda/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  program=$packed/heddle tests=$packed/heddle_tests
else
  ./heddle setup cuda && ./heddle test --count >/dev/null || exit
  program=$PWD/build/release/experiments/heddle tests=$PWD/build/release/tests/heddle_tests
fi
export HEDDLE_PROGRAM=$program HEDDLE_SOURCE_DIR=$PWD HEDDLE_TEST_BACKEND=cuda
result=${1:-experiments/results/gpu/$(date -u +%F)_$(tr -cs 'A-Za-z0-9\n' '-' <<<"${device%%,*}").json}
mkdir -p "$(dirname "$result")" || exit
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
steps='' failures=0

quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g; s/[[:cntrl:]]//g' <<<"$1")"; }

step() {  # step NAME LIMIT COMMAND...: at most so many seconds
  local name=$1 limit=$2 start=$SECONDS code passed='' failed='' end
  shift 2
  printf '==== %s\n' "$name"
  timeout -k 2 "$limit" "$@" >"$logs/$name" 2>&1
  code=$?
  read -r passed failed < <(sed -n 's/^\[doctest\] test cases: *[0-9]* | *\([0-9]*\) passed | *\([0-9]*\) failed.*/\1 \2/p' \
    "$logs/$name" | tail -n 1)
  ((code)) && failures=$((failures + 1)) && tail -n 40 "$logs/$name"
  printf -- '---- %s: exit %s, %s passed, %s failed, %s s\n' "$name" "$code" "${passed:--}" "${failed:--}" $((SECONDS - start))
  end=''
  ((code)) && end=", \"end\": $(quoted "$(tail -n 60 "$logs/$name" | head -c 4000 | tr '\n' '|')")"
  steps+="${steps:+,}
    {\"name\": $(quoted "$name"), \"command\": $(quoted "$*"), \"exit\": $code, \"seconds\": $((SECONDS - start)),
     \"passed\": ${passed:-null}, \"failed\": ${failed:-null}$end}"
}

kernels='*/framework/backends/cuda/*,*/framework/kernels/*,*/framework/ops/*,*/framework/tensors/*,*/optimizer_*,*/lazy_*,*/cuda_device_*'
step "operations and kernels" 60 "$tests" --source-file="$kernels" --test-case-exclude='lazy rows are dense*'
step "head" 45 "$tests" --source-file='*/layers/head/head_*,*/layers/head/concurrent/*'
# Layouts of up to eight ranks on this one card.
step "layouts" 60 env HEDDLE_TEST_LAYOUTS=60 "$tests" --source-file='*/equivalence_*,*/synchronised_*,*/communicator_*,*/parallel/pipeline/concurrent/*'
step "experiments beside the cpu and plan" 100 "$tests" --test-case='shipped experiments have the same losses on a GPU*'
memory=$(sed -n 's/^memory: //p' "$logs/experiments beside the cpu and plan" | paste -sd , -)
if command -v compute-sanitizer >/dev/null; then
  small='*/cuda_rows_*,*/cuda_training_*,*/cuda_class_rows_*'
  step "memcheck" 40 compute-sanitizer --tool memcheck --error-exitcode 9 "$tests" --source-file="$small"
  step "racecheck" 40 compute-sanitizer --tool racecheck --error-exitcode 9 "$tests" --source-file="$small"
else
  echo "not run: there is no compute-sanitizer here"
fi
peer=()
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
  peer=(--peer "$(command -v python3)")
else
  echo "not run: there is no PyTorch here that has this GPU"
fi
# shellcheck disable=SC2016
step "benchmark" 130 bash -c '"$0" bench gpu --json "${@:2}" >"$1"' "$program" "$logs/bench" "${peer[@]}"
bench=$(<"$logs/bench")

printf '{\n  "date": %s,\n  "device": %s,\n  "version": %s,\n  "command": "tests/gpu_check.sh",\n  "steps": [%s\n  ],\n  "memory": [%s\n  ],\n  "bench": %s\n}\n' \
  "$(quoted "$(date -u +%FT%TZ)")" "$(quoted "$device")" "$(quoted "$("$program" --version | head -n 1)")" "$steps" \
  "$memory" "${bench:-null}" >"$result"
echo "$result: $failures of its steps failed"
((failures == 0))
