#!/usr/bin/env bash
# Tests of the launcher, on a small project of the same shape in a temporary folder. Needs the build tools, no network.
# shellcheck disable=SC2009,SC2016,SC2094
set -u
launcher=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/heddle
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset HEDDLE_BUILD_DIR HEDDLE_PRESET HEDDLE_SKIP_PACKAGES RANK OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMI_FD PMIX_RANK \
  SLURM_PROCID
tree="$work/a house"  # the space is part of the test
# shellcheck source=tests/support/checks.sh
source "$(dirname "$launcher")/tests/support/checks.sh"

call() {  # runs the launcher in the tree; leaves its output in $out, $err and $code
  out=$("$tree/heddle" "$@" 2>"$work/err")
  code=$?
  err=$(<"$work/err")
}

mkdir -p "$tree"/{framework,experiments/program,tests}
cp "$launcher" "$tree/"
cp -r "$(dirname "$launcher")/experiments/program/launcher" "$tree/experiments/program/"
cat >"$tree/CMakePresets.json" <<'END'
{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "build/release"}]}
END
cat >"$tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(stub LANGUAGES CXX)
include_directories(${PROJECT_SOURCE_DIR})
add_executable(heddle_program experiments/program/main.cpp)
add_executable(heddle_tests tests/main.cpp)
set_target_properties(heddle_program PROPERTIES OUTPUT_NAME heddle RUNTIME_OUTPUT_DIRECTORY experiments)
option(HEDDLE_CUDA_WANTED "as in the project" OFF)
set(HEDDLE_HAS_CUDA OFF)
if(HEDDLE_CUDA_WANTED AND EXISTS ${PROJECT_SOURCE_DIR}/nvcc)
  set(HEDDLE_HAS_CUDA ON)
  target_compile_definitions(heddle_program PRIVATE DEVICE="cuda")
endif()
set(HEDDLE_HAS_CUDA ${HEDDLE_HAS_CUDA} CACHE INTERNAL "")
set(HEDDLE_CUDA_LACKS "there is no nvcc" CACHE INTERNAL "")
foreach(name openmpi mpich)
  add_executable(heddle_${name} experiments/program/main.cpp)
  set_target_properties(heddle_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY experiments)
endforeach()
set_target_properties(heddle_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
END
echo 'const int value = 1;' >"$tree/framework/value.h"
cat >"$tree/experiments/program/main.cpp" <<'END'
#include "framework/value.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#ifndef DEVICE
#define DEVICE "cpu"
#endif
volatile std::sig_atomic_t count = 0;
int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if (verb == "value") std::printf("%d\n", value);
  if (verb == "run" || verb == "plan" || verb == "bench") std::puts(DEVICE);
  if (verb == "arguments") for (int i = 2; i < argc; ++i) std::printf("<%s>", argv[i]);
  if (verb == "echo") for (int c; (c = std::getchar()) != EOF;) std::putchar(c);
  if (verb == "terminal") std::printf("%d%d%d\n", isatty(0), isatty(1), isatty(2));
  if (verb == "exit") return std::atoi(argv[2]);
  if (verb == "interrupted") {  // ends by itself with the exit code of a signal, and says so
    std::puts("ready");
    return write(std::atoi(std::getenv("HEDDLE_SUPERVISOR_PIPE")), "interrupted\n", 12) == 12 ? 143 : 1;
  }
  if (verb == "raise") std::raise(std::atoi(argv[2]));
  if (verb == "wait") { std::puts("ready"); std::fflush(stdout); sleep(20); }
  if (verb == "count") {  // counts signals until half a second passes without one
    for (const int s : {SIGINT, SIGTERM, SIGHUP}) std::signal(s, [](int) { count = count + 1; });
    std::puts("ready");
    std::fflush(stdout);
    sleep(20);
    while (usleep(500000) != 0) {}
    std::printf("%d signals\n", static_cast<int>(count));
  }
}
END
cat >"$tree/tests/main.cpp" <<'END'
#include <cstdio>
#include <string>
int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  const bool fails = option == "--fails";
  const int all = option == "--none" ? 0 : 12;
  std::printf("[doctest] test cases: %2d | %d passed | %d failed | 3 skipped\n", all, fails ? 11 : all, fails ? 1 : 0);
  return fails ? 1 : 0;
}
END

# ---- building ------------------------------------------------------------------------------------------------------

call value
is "the first call builds and runs: output" 1 "$out"
has "the first call says that it builds" "heddle: building heddle_program" "$err"
call value
is "the second call is silent" "" "$err"

mkdir "$work/traps"
for tool in cmake ninja g++ apt-get flock; do
  printf '#!/bin/sh\necho "%s was called" >&2; exit 1\n' "$tool" >"$work/traps/$tool"
  chmod +x "$work/traps/$tool"
done
is "with nothing changed no tool and no lock is touched" 1 "$(PATH="$work/traps:$PATH" "$tree/heddle" value 2>&1)"
start=$EPOCHREALTIME
"$tree/heddle" value >/dev/null
echo "with nothing changed a call takes $(((${EPOCHREALTIME/[.,]/} - ${start/[.,]/}) / 1000)) ms"

echo 'const int value = 2;' >"$tree/framework/value.h"
call value
is "an edited header is built in" 2 "$out"
cp -p "$tree/framework/value.h" "$work/older.h"
touch -d '1 hour ago' "$work/older.h"
cp -p "$work/older.h" "$tree/framework/value.h"
call value
has "a file replaced by an older one is noticed" "building heddle_program" "$err"
echo >"$tree/framework/more.h"
call value
has "an added file is noticed" "building" "$err"
rm "$tree/framework/more.h"
call value
has "a removed file is noticed" "building" "$err"
for embedded in cells/text.md pages/page.css; do
  mkdir "$tree/framework/${embedded%/*}"
  echo >"$tree/framework/$embedded"
  call value
  has "a file that is embedded is noticed: $embedded" "building" "$err"
done

echo 'const int value = oops;' >"$tree/framework/value.h"
call value
is "a failed build ends with 1" "1/" "$code/$out"
has "a failed build shows the compiler's message" "was not declared" "$err"
has "a failed build names its log" "the build failed; all of its output: $tree/build/release/heddle.log" "$err"
call value
is "a failed build is tried again" 1 "$code"
echo 'const int value = 3;' >"$tree/framework/value.h"
call value
is "a mended build runs" 3 "$out"

call setup
is "setup runs nothing" "0/" "$code/$out"
is "the build folder can be elsewhere" 3 "$(HEDDLE_BUILD_DIR="$work/else where" "$tree/heddle" value 2>/dev/null)"
ln -s "$tree/heddle" "$work/link"
is "it can be called from anywhere through a link" 3 "$(cd / && "$work/link" value 2>&1)"
mv "$tree" "$tree moved"
tree="$tree moved"
call value
is "a moved tree is built anew" "0/3" "$code/$out"

echo 'const int value = 4;' >"$tree/framework/value.h"
for i in 1 2 3; do "$tree/heddle" value >"$work/out$i" 2>"$work/err$i" & done
wait
is "calls at once agree" "4 4 4" "$(cat "$work"/out[123] | xargs)"
is "calls at once build once" 1 "$(cat "$work"/err[123] | grep -c 'building heddle_program')"
exec 8>>"$tree/build/release/.lock"
flock 8
is "a call that builds nothing does not wait for one that does" 4 "$(timeout 20 "$tree/heddle" value 8>&- 2>&1)"
exec 8>&-

# ---- progress ------------------------------------------------------------------------------------------------------

# In place of ninja: reports steps in the wanted form, waits $2 seconds, and builds.
pretend_ninja() {  # pretend_ninja FOLDER SECONDS
  mkdir -p "$1"
  printf '#!/bin/bash\n[[ $1 == -C ]] || exec %q "$@"\n%s\nexec %q "$@" >/dev/null\n' "$(command -v ninja)" \
    "printf '%s\n' \"\${NINJA_STATUS//%f/34} A\" | sed s/%t/100/; printf 'half a '; sleep $2; echo line" \
    "$(command -v ninja)" >"$1/ninja"
  chmod +x "$1/ninja"
}
pretend_ninja "$work/long" 16
pretend_ninja "$work/short" 3
cp -r "$tree" "$work/long tree"
PATH="$work/long:$PATH" "$work/long tree/heddle" value >"$work/long out" 2>&1 &
long=$!
touch "$tree/framework/value.h"
# shellcheck disable=SC2016
seen=$(PATH="$work/short:$PATH" script -qec "'$tree/heddle' value" /dev/null </dev/null)
rewritten=no
for second in 0 1 2; do  # a busy machine may begin late
  line=$'\r\e[Kheddle: building: 34 / 100, 0:0'
  [[ $seen == *"$line$second$line$((second + 1))"* ]] && rewritten=yes
done
is "on a terminal a build rewrites one line every second (${seen@Q})" yes "$rewritten"
is "on a terminal that line is cleared before the program's output" $'\r\e[K4\r' "${seen: -6}"

# ---- the device cuda -----------------------------------------------------------------------------------------------

mkdir "$work/files"
echo '{"device" : "cuda"}' >"$work/files/gpu.json"
echo '{"device" : "cpu", "name": "cuda"}' >"$work/files/cpu.json"
call run "$work/files/cpu.json"
is "without a request nothing is configured for cuda" "cpu/" "$out/$err"
call plan "$work/files/gpu.json" --set device=cuda
is "a plan needs no cuda" "cpu/" "$out/$err"
call run "$work/files/gpu.json" --set device=cpu
is "a key overrides the file" "cpu/" "$out/$err"
call run "$work/files/gpu.json"
is "without a GPU nothing is configured for cuda, and the program says what it lacks" "cpu/" "$out/$err"
mkdir "$work/gpu"
printf '#!/bin/sh\n' >"$work/gpu/nvidia-smi"
chmod +x "$work/gpu/nvidia-smi"
without_gpu=$PATH
PATH=$work/gpu:$PATH
call run "$work/files/gpu.json"
has "a file that computes on cuda has it configured" "heddle: configuring in $tree/build/release" "$err"
is "where it cannot be built the program runs all the same" "0/cpu" "$code/$out"
call run "$work/files/cpu.json" --set device=cuda
is "the request is not repeated" "cpu/" "$out/$err"
call setup cuda
is "setup cuda fails where it cannot be built" 1 "$code"
is "setup cuda says why" "heddle: the device cuda cannot be built here: there is no nvcc" "${err##*$'\n'}"
touch "$tree/nvcc"
call setup cuda
is "setup cuda builds it in once it can" "0/cuda" "$code/$("$tree/heddle" run x 2>&1)"
call setup cuda
is "setup cuda is silent when it is built in" "heddle: ready: $tree/build/release/experiments/heddle" "$err"
echo >>"$tree/CMakePresets.json"
call run "$work/files/cpu.json"
is "it stays built in" "cuda" "$out"
mv "$tree" "$tree again"
tree="$tree again"
call run "$work/files/cpu.json"
is "it stays built in when the tree is moved" "cuda" "$out"
for request in "run --set device=cuda" "run --set=device=cuda" "bench gpu" "run $work/files/gpu.json"; do
  rm -rf "$tree/build"
  # shellcheck disable=SC2086
  call $request
  is "asked for by $request" "cuda" "$out"
done
rm -rf "$tree/build"
call run --set 'device="cuda"'
is "asked for by a value in quotes" "cuda" "$out"
PATH=$without_gpu
call setup cuda opennpi
is "setup refuses unknown arguments" "2/heddle: setup: expected cuda, openmpi or mpich, got opennpi" "$code/$err"

# ---- packages ------------------------------------------------------------------------------------------------------

mkdir "$work/bare"
for tool in bash env dirname readlink realpath mkdir flock find sort cksum rm cat grep sed tail head nproc awk sleep; do
  ln -s "$(command -v "$tool")" "$work/bare/$tool"
done
echo 'const int value = 5;' >"$tree/framework/value.h"
err=$(PATH="$work/bare" "$tree/heddle" value 2>&1)
is "without apt it stops with 1" 1 $?
has "without apt it lists the packages" "these Debian packages are missing: g++ cmake ninja-build" "$err"
has "without apt it explains how to continue" "then call ./heddle again" "$err"
cat >"$work/bare/apt-get" <<END
#!/bin/bash
echo "\${@: -1}: \$*" >>"$work/apt"
[[ "\$*" == *update* ]] || /bin/ln -sf "$(command -v g++)" "$(command -v cmake)" "$(command -v ninja)" "$work/bare/"
END
printf '#!/bin/bash\n[[ $1 != -n ]] || shift\nexec "$@"\n' >"$work/bare/sudo"
chmod +x "$work/bare/apt-get" "$work/bare/sudo"
for tool in as ld cc c++ ar ranlib strip nm objcopy objdump uname ls; do
  ln -s "$(command -v "$tool")" "$work/bare/$tool"
done
err=$(PATH="$work/bare" "$tree/heddle" value 2>&1)
has "with apt it says what it is about to install" "installing them now with apt-get" "$err"
is "with apt it then runs the program" 5 "${err##*$'\n'}"
is "apt's lists are refreshed first" "update" "$(head -n 1 "$work/apt" | cut -d: -f1)"
has "recommended packages are left out" "install --no-install-recommends g++ cmake ninja-build" "$(tail -n 1 "$work/apt")"

rm "$work/apt"
PATH="$work/bare" "$tree/heddle" notebook --help >/dev/null 2>&1
is "the help of notebook needs no packages" "" "$(cat "$work/apt" 2>/dev/null)"
err=$(PATH="$work/bare" "$tree/heddle" notebook x 2>&1)
is "a page of results needs its packages, and the program runs" "0" $?
has "the page's packages are named" "missing: jupyter-nbconvert python3-ipykernel python3-pandas python3-matplotlib" "$err"
has "the page's packages are installed" "python3-matplotlib: " "$(tail -n 1 "$work/apt")"
rm "$work/apt"
printf '#!/bin/bash\n[[ ${2-} == -c ]] && shift; [[ $1 == -c && "${*: -3}" == "ipykernel pandas matplotlib" ]]\n' >"$work/bare/python"
printf '#!%s\n' "$work/bare/python" >"$work/bare/jupyter-nbconvert"
chmod +x "$work/bare/python" "$work/bare/jupyter-nbconvert"
err=$(PATH="$work/bare" "$tree/heddle" notebook x 2>&1)
is "with Jupyter and its modules nothing is installed" "" "$err$(cat "$work/apt" 2>/dev/null)"

# ---- supervision ---------------------------------------------------------------------------------------------------

call arguments "a  b" '' '*'
is "arguments arrive as they are" "<a  b><><*>" "$out"
is "standard input reaches the program" "hello" "$(echo hello | "$tree/heddle" echo)"
for wanted in 0 1 2 3 4 255; do
  call exit "$wanted"
  is "exit code $wanted and nothing else is handed on" "$wanted/" "$code/$err"
done
call raise 11
is "death by a signal ends with 4" 4 "$code"
has "death by a signal names process and signal" "/experiments/heddle raise 11) was killed by SIGSEGV" "$err"
call raise 9
is "bash adds nothing to that" 1 "$(wc -l <"$work/err")"
has "the process is named by its number" "heddle: process " "$err"
# Each mpirun has a program of its own.
for name in "OMPI_COMM_WORLD_RANK=0 openmpi" "PMI_RANK=0 mpich" "PMIX_RANK=0 openmpi"; do
  err=$(env HEDDLE_SKIP_PACKAGES=1 "${name% *}" "$tree/heddle" raise 9 2>&1)
  has "${name% *} chooses its program" "/experiments/heddle_${name#* } raise 9) was killed" "$err"
done
err=$(SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "$tree/heddle" value 2>&1)
is "srun without an MPI is wrong input" 2 $?
has "the launcher explains how srun gets an MPI" "srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)" "$err"
err=$(SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 MASTER_ADDR=here MASTER_PORT=1 "$tree/heddle" raise 9 2>&1)
has "processes that meet by sockets need no MPI's program" "/experiments/heddle raise 9) was killed" "$err"
err=$(HEDDLE_SKIP_PACKAGES=1 OMPI_COMM_WORLD_RANK=3 "$tree/heddle" raise 9 2>&1)
is "a killed rank ends with 4" 4 $?
has "a killed rank is named" "heddle: rank 3: process " "$err"
has "death by SIGKILL names a likely cause" "killed by SIGKILL: by hand, by a scheduler, or by the kernel" "$err"
call raise 13
is "a closed pipe is no failure of the program" "141/" "$code/$err"

when_ready() {  # when_ready FILE: until the program has said that it is ready
  for _ in {1..200}; do grep -qs ready "$1" && return; sleep 0.05; done
}
signalled() {  # signalled COMMAND SIGNAL TARGET: sends a signal to a call, or to its process group, when it is ready
  : >"$work/out"
  "$tree/heddle" "$1" >"$work/out" 2>"$work/err" &
  local pid=$!
  when_ready "$work/out"
  if [[ $3 == group ]]; then kill -s "$2" -- "-$pid"; else kill -s "$2" "$pid"; fi
  wait "$pid"
  code=$?
}
call interrupted
is "a program that ends by itself with the exit code of a signal was not killed" "143/ready/" "$code/$out/$err"
# Job control, so that a background call does not ignore Ctrl-C and has a process group of its own.
set -m
for signal in INT TERM HUP; do
  for target in process group; do
    signalled count "$signal" "$target"
    is "SIG$signal to the $target reaches the program once" "0 ready 1 signals" \
      "$code $(cat "$work/out" "$work/err" | xargs)"
    signalled wait "$signal" "$target"
    is "death by the user's SIG$signal to the $target is said" \
      "$((128 + $(kill -l "$signal"))) ready heddle: stopped by SIG$signal" \
      "$code $(cat "$work/out" "$work/err" | xargs)"
  done
done
set +m
mkdir "$work/slow"
printf '#!/bin/sh\necho ready >"%s"\nexec sleep 20\n' "$work/out" >"$work/slow/ninja"
chmod +x "$work/slow/ninja"
echo 'const int value = 6;' >"$tree/framework/value.h"
: >"$work/out"
PATH="$work/slow:$PATH" "$tree/heddle" value 2>"$work/err" &
pid=$!
when_ready "$work/out"
kill "$pid"
{ wait "$pid"; } 2>/dev/null
is "a signal ends a build" 143 $?
call value
is "an interrupted build is taken up again" "0/6" "$code/$out"

in_terminal() {  # in_terminal KEYS ARGUMENTS: runs the launcher in a terminal, pressing KEYS when it is ready
  local keys=$1
  : >"$work/out"
  { when_ready "$work/out"; printf '%b' "$keys"; sleep 0.7; } |
    script -qefc "'$tree/heddle' $2" /dev/null >"$work/out" 2>&1
  code=${PIPESTATUS[1]}
}
is "the program sees the terminal" "111" "$(script -qec "'$tree/heddle' terminal" /dev/null </dev/null | tr -d '\r')"
in_terminal '\003' count
has "Ctrl-C reaches the program once" "1 signals" "$(<"$work/out")"
in_terminal '\003' wait
is "Ctrl-C ends it with 130" 130 "$code"

# ---- test ----------------------------------------------------------------------------------------------------------

call test
is "test ends with the counts" "0/12 passed, 0 failed" "$code/${out##*$'\n'}"
call test --fails
is "test hands on options and failures" "1/11 passed, 1 failed" "$code/${out##*$'\n'}"

call test none
is "test refuses words that are no options" "2/heddle: test: expected options, as in --test-case='*none*', got none" "$code/$err"
call test --none
is "options that choose no test are an error" "2/heddle: test: no test case matches these options" "$code/$err"
rm -rf "$tree/build/release/tests"
call test --help
is "the help of the tests builds nothing" "0/" "$code/$err"
has "the help of the tests names their options" "--long" "$out"

wait "$long"
is "off a terminal a build reports every 15 seconds" "heddle: building: 34 / 100, 0:15" "$(grep -F ' / ' "$work/long out" | sed s/0:16/0:15/)"
is "the log has what came in two parts" "half a line" "$(tail -n 1 "$work/long tree/build/release/heddle.log")"
is "nothing is left running" "" "$(left_behind)"
echo "$passed passed, $failed failed"
((failed == 0))
