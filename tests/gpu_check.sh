#!/usr/bin/env bash
# Everything that only a GPU can show: the tests with the cuda backend, compute-sanitizer on the small ones, the shipped
# experiments on both devices, and the benchmark beside PyTorch, where that is installed. Writes the results as JSON; the
# exit code is 1 if a step failed. Tests run beside each other, the benchmark alone.
#
#   tests/gpu_check.sh [--only tests|speed] [--logs FOLDER] [FILE]
#                                  default: experiments/results/gpu/DATE_DEVICE.json
#
# The tests take at most nine minutes (five without compute-sanitizer), the benchmark at most five: on a machine that is
# lent for ten minutes at a time, --only runs one of them. What has ended is in FILE if the time is up before the end.
# --logs keeps what every step printed.
# It builds first, unless build/gpu.tar.gz came with the tree: `tests/gpu_check.sh --pack` collects there, on a machine
# with packages but no GPU, what another one needs (about 40 MB); copy the tree there, with that file, and call this.
# cuBLAS and cuDNN are then those of that machine: CUDA's, or PyTorch's.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
packed=$PWD/build/gpu

pack() {
  # CMake keeps the architectures of an earlier build, such as the one that .ci/run makes do with.
  if [[ ! ${CUDAARCHS-} ]] && grep -qs '^CMAKE_CUDA_ARCHITECTURES:STRING=.' build/release/CMakeCache.txt; then
    cmake -U CMAKE_CUDA_ARCHITECTURES -S . -B build/release >/dev/null && rm -f build/release/.built-* || exit
  fi
  ./heddle setup cuda || exit
  ./heddle test --count >/dev/null || exit
  if [[ ! ${CUDAARCHS-} ]] && command -v cuobjdump >/dev/null; then
    cuobjdump --list-elf build/release/experiments/heddle | grep -q sm_90 || refuse "the program has no code for sm_90"
  fi
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

refuse() {  # refuse WHAT: a wrong use of this script
  echo "gpu_check: $*" >&2
  exit 2
}

only='' kept='' result=''
while (($#)); do
  case $1 in
    --pack) pack; exit ;;
    -h | --help) sed -n '2,/^set -u/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit ;;
    --only) [[ ${2-} == tests || ${2-} == speed ]] || refuse "--only: expected tests or speed, got ${2-nothing}"
      only=$2; shift ;;
    --logs) [[ ${2-} ]] || refuse "--logs: expected a folder"
      kept=$2; shift ;;
    -*) refuse "expected a file's name, --only, --logs, --pack or --help, got $1" ;;
    *) [[ $result ]] && refuse "expected one file, got $result and $1"
      result=$1 ;;
  esac
  shift
done

libraries=''
if [[ -f build/gpu.tar.gz ]]; then
  tar -C build -xzf build/gpu.tar.gz || exit
  program=$packed/heddle tests=$packed/heddle_tests
  # cuDNN and cuBLAS as CUDA's packages install them, then as pip does.
  libraries=$packed/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64:/usr/local/cuda/lib
  for folder in $(python3 -c 'import sys; print(*sys.path, sep="\n")' 2>/dev/null); do
    for library in "$folder"/nvidia/{cudnn,nccl,cu13,cublas}/lib; do [[ -d $library ]] && libraries+=:$library; done
  done
  lacking=$(LD_LIBRARY_PATH=$libraries ldd "$program" "$tests" | awk '/not found/ {print $1}' | sort -u | paste -sd ' ' -)
  [[ ! $lacking ]] || refuse "these libraries are not here: $lacking"
fi
device=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null | head -n 1)
[[ $device ]] || refuse "there is no NVIDIA GPU here, or no driver with its nvidia-smi; tests/gpu_check.sh --pack makes" \
  "one file of what a machine with a GPU but no packages needs"
if [[ ! $libraries ]]; then
  ./heddle setup cuda && ./heddle test --count >/dev/null || exit
  program=$PWD/build/release/experiments/heddle tests=$PWD/build/release/tests/heddle_tests
fi
export HEDDLE_PROGRAM=$program HEDDLE_SOURCE_DIR=$PWD HEDDLE_TEST_BACKEND=cuda
[[ ! $libraries ]] || export LD_LIBRARY_PATH=$libraries
result=${result:-experiments/results/gpu/$(date -u +%F)_$(tr -cs 'A-Za-z0-9\n' '-' <<<"${device%%,*}")${only:+_$only}.json}
mkdir -p "$(dirname "$result")" || exit
logs=$kept
if [[ $kept ]]; then
  mkdir -p "$kept" || exit
else
  logs=$(mktemp -d)
  trap 'rm -rf "$logs"' EXIT
fi
begun=() steps='' failures=0 memory='' bench=''

quoted() { printf '"%s"' "$(sed 's/[\\"]/\\&/g; s/[[:cntrl:]]//g' <<<"$1")"; }

step() {  # step NAME LIMIT COMMAND...: at most so many seconds
  local name=$1 limit=$2 start=$SECONDS code passed='' failed='' log="$logs/${1// /_}" ended=''
  shift 2
  timeout -k 2 "$limit" "$@" >"$log" 2>&1
  code=$?
  read -r passed failed < <(sed -n 's/^\[doctest\] test cases: *[0-9]* | *\([0-9]*\) passed | *\([0-9]*\) failed.*/\1 \2/p' \
    "$log" | tail -n 1)
  # The first errors say most; a crash and a limit say it at the end.
  ((code == 0)) || ended=$({ grep -m 20 -A 8 'ERROR' "$log"; tail -n 20 "$log"; } | head -c 6000 | iconv -cf utf-8 -t utf-8)
  printf '%s---- %s: exit %s, %s passed, %s failed, %s s\n' "${ended:+$ended$'\n'}" "$name" "$code" "${passed:--}" \
    "${failed:--}" $((SECONDS - start))
  printf '    {"name": %s, "command": %s, "exit": %s, "seconds": %s, "passed": %s, "failed": %s%s}' "$(quoted "$name")" \
    "$(quoted "$*")" "$code" $((SECONDS - start)) "${passed:-null}" "${failed:-null}" \
    "${ended:+, \"end\": $(quoted "$(tr '\n' '|' <<<"$ended")")}" >"$log.step"
}
beside() {  # the same, beside the other steps until `together`
  begun+=("$1")
  step "$@" &
}
together() {
  wait
  local name
  for name in "${begun[@]}"; do
    steps+="${steps:+,}"$'\n'"$(<"$logs/${name// /_}.step")"
    grep -q '"exit": 0' "$logs/${name// /_}.step" || failures=$((failures + 1))
  done
  begun=()
  write_result
}

write_result() {  # with the steps that have ended so far
  printf '{\n  "date": %s,\n  "device": %s,\n  "version": %s,\n  "command": %s,\n  "steps": [%s\n  ],\n  "memory": [%s\n  ],\n  "bench": %s\n}\n' \
    "$(quoted "$(date -u +%FT%TZ)")" "$(quoted "$device")" "$(quoted "$(head -n 1 "$logs/version")")" \
    "$(quoted "tests/gpu_check.sh${only:+ --only $only}")" "$steps" "$memory" "${bench:-null}" >"$result"
}

beside "version" 20 "$program" --version
together
if [[ $only != speed ]]; then
  kernels='*/framework/backends/cuda/*,*/framework/kernels/*,*/framework/ops/*,*/framework/tensors/*,*/optimizer_*,*/weight_averages_*,*/layers/head/deferred_steps_*,*/cuda_device_*'
  beside "operations and kernels" 240 "$tests" --source-file="$kernels" --test-case-exclude='lazy rows are dense*'
  beside "head" 280 "$tests" --source-file='*/layers/head/head_*,*/layers/head/concurrent/*'
  # Layouts of up to eight ranks on this one card.
  beside "layouts" 240 env HEDDLE_TEST_LAYOUTS=60 "$tests" --source-file='*/equivalence_*,*/synchronised_*,*/communicator_*,*/message_collectives_*,*/parallel/pipeline/concurrent/*'
  beside "experiments beside the cpu and plan" 280 "$tests" --test-case='shipped experiments have the same losses on a GPU*'
  together
  memory=$(sed -n 's/^memory: \({.*}\)$/\1/p' "$logs/experiments_beside_the_cpu_and_plan" | paste -sd , -)
  write_result
  if command -v compute-sanitizer >/dev/null; then
    small='*/cuda_rows_*,*/cuda_training_*,*/cuda_class_rows_*,*/cuda_bias_*,*/cuda_head_*'
    beside "memcheck" 240 compute-sanitizer --tool memcheck --error-exitcode 9 "$tests" --source-file="$small"
    beside "racecheck" 240 compute-sanitizer --tool racecheck --error-exitcode 9 "$tests" --source-file="$small"
    beside "racecheck of attention, norms and pools" 240 compute-sanitizer --tool racecheck --error-exitcode 9 "$tests" \
      --test-case='Every operation in f32 and bf16*,Norms over many rows*,Pools are the cpu*'
    together
  else
    echo "not run: there is no compute-sanitizer here"
  fi
fi
if [[ $only != tests ]]; then
  peer=()
  if env -u LD_LIBRARY_PATH python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    # PyTorch has libraries of its own.
    printf '#!/bin/sh\nunset LD_LIBRARY_PATH\nexec "%s" "$@"\n' "$(command -v python3)" >"$logs/python"
    chmod +x "$logs/python"
    peer=(--peer "$(realpath "$logs/python")")
  else
    echo "not run: there is no PyTorch here that has this GPU"
  fi
  # shellcheck disable=SC2016
  beside "benchmark" 300 bash -c '"$0" bench gpu --json "${@:2}" >"$1"' "$program" "$logs/bench.json" "${peer[@]}"
  together
  grep -q '"exit": 0' "$logs/benchmark.step" && bench=$(<"$logs/bench.json")
  write_result
fi
echo "$result: $failures of its steps failed"
((failures == 0))
