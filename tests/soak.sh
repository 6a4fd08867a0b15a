#!/usr/bin/env bash
# Trains for a long time, by default two hours: an elastic job of three processes, two of which are killed and started again
# in turn, 200 times in all. Rank 0 stays: its memory, descriptors and threads must not grow after the first tenth of the time
# (at most ten minutes), nor its log and its metrics by more than a few lines per restart and one line per step.
#
#   tests/soak.sh [MINUTES]
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
unset RANK WORLD_SIZE LOCAL_RANK OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMIX_RANK SLURM_PROCID
minutes=${1:-120}
[[ $minutes =~ ^[1-9][0-9]*$ ]] || { echo "usage: tests/soak.sh [MINUTES]" >&2; exit 2; }
restarts=200
./heddle --version >/dev/null || exit 1
work=$(mktemp -d)
launchers=()
trap 'kill "${launchers[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

cat >"$work/soak.json" <<JSON
{
  "name": "soak", "mesh": {"dp": 3}, "threads": 1, "seed": 5, "timeout": 60,
  "elastic": {"restarts": $restarts, "wait": 120},
  "data": {"type": "synthetic_identities", "identities": 60, "image": [1, 32, 32]},
  "model": {"type": "mlp", "hidden": [512, 512], "embedding": 64}, "head": {"classes": 60},
  "train": {"batch": 96, "steps": 100000000, "save_every": 10}
}
JSON
export WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 7000)) HEDDLE_JOB_SECRET=soak

start() {  # start RANK: its launcher
  RANK=$1 ./heddle run "$work/soak.json" --elastic --out "$work/out" >>"$work/out.$1" 2>>"$work/err.$1" &
  launchers[$1]=$!
}
program_of() {  # program_of LAUNCHER: its child of that name; the rank of a program changes when the job restarts
  local child
  for child in $(<"/proc/$1/task/$1/children"); do
    [[ $(readlink "/proc/$child/exe") == */experiments/heddle ]] && echo "$child"
  done 2>/dev/null
}
restarts_so_far() { grep -c '^restart ' "$work/err.0"; }
value() { awk -v key="$1:" '$1 == key {print $2}' "/proc/$leader/status"; }
lines() { wc -l <"$1"; }

# One more restart: kills a program. Its launcher starts it again, or this script does after the launcher's third time.
restart() {  # restart 1|2
  local wanted=$(($(restarts_so_far) + 1)) end=$((SECONDS + 120)) pid
  pid=$(program_of "${launchers[$1]}")
  [[ $pid ]] && kill -KILL "$pid"
  until (($(restarts_so_far) >= wanted)); do
    kill -0 "${launchers[$1]}" 2>/dev/null || start "$1"
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

# The files that rank 0 has open, or its threads: those of a checkpoint that it writes just then do not count.
least() {  # least fd|task
  local found min=1000000
  for _ in {1..30}; do
    found=(/proc/"$leader/$1"/*)
    ((${#found[@]} < min)) && min=${#found[@]}
    sleep 0.02
  done
  echo "$min"
}
# One line per restart, when the job trains again: seconds, memory in KiB, descriptors, threads.
sample() { echo "$((SECONDS - begin)) $(value VmRSS) $(least fd) $(least task)" >>"$work/samples"; }

for rank in 0 1 2; do start $rank; done
at_step "$work/out" 20
leader=$(program_of "${launchers[0]}")
begin=$SECONDS
total=$((minutes * 60))
for ((done = 0; done < restarts; ++done)); do
  due=$((begin + total * (done + 1) / restarts))
  while ((SECONDS < due)); do sleep 0.2; done
  if ! restart $((1 + done % 2)); then
    for rank in 0 1 2; do
      echo "the last lines of rank $rank:"
      tail -n 20 "$work/err.$rank"
    done
    break
  fi
  before=$(lines "$work/out/metrics.jsonl")
  for _ in {1..600}; do  # until it trains
    (($(lines "$work/out/metrics.jsonl") > before)) && break
    sleep 0.1
  done
  sample
done
is "the job restarts $restarts times" "$restarts" "$(restarts_so_far)"
kill -TERM "$leader"
wait "${launchers[0]}"
is "it ends after SIGTERM" 143 $?

# The samples after the first tenth of the time: the means of the first and of the last ten of them are compared, since
# memory goes up and down a little by what is under way.
settled=$((total / 10 < 600 ? total / 10 : 600))
awk -v settled=$settled '$1 >= settled' "$work/samples" >"$work/settled"
mean() { awk '{sum += $2} END {printf "%d", sum / NR}'; }
range() { sort -n -k "$1,$1" "$work/settled" | awk -v column="$1" 'NR == 1 {min = $column} END {print min, $column}'; }
first=$(head -n 10 "$work/settled" | mean) last=$(tail -n 10 "$work/settled" | mean)
steps=$(lines "$work/out/metrics.jsonl")
echo "minutes $minutes, restarts $(restarts_so_far), steps $steps, samples after $settled s: $(lines "$work/settled")"
echo "resident memory of rank 0 in KiB: $first, at the end $last; least and most: $(range 2)"
echo "least and most descriptors of rank 0: $(range 3); threads: $(range 4)"
echo "log of rank 0: $(lines "$work/err.0") lines, $(wc -c <"$work/err.0") bytes; metrics: $(wc -c <"$work/out/metrics.jsonl") bytes"
# A run keeps the loss of every step.
is "resident memory is flat within 1 % and 8 bytes per step" 1 $((last * 100 <= first * 101 + 100 * 8 * steps / 1024))
is_constant() { is "the number of $1 is constant" 1 "$(cut -d' ' -f "$2" "$work/settled" | sort -u | wc -l)"; }
is_constant descriptors 3
is_constant threads 4
is "the log has at most 6 lines per restart" 1 $(($(lines "$work/err.0") <= 6 * restarts + 20))
is "the metrics have one line per step" "$steps" "$(grep -o '"step":[0-9]*' "$work/out/metrics.jsonl" | sort -u | wc -l)"
# The first line after a restart lists all restarts so far.
is "of at most 400 bytes, and 100 for each restart before one" 1 \
  $(($(wc -c <"$work/out/metrics.jsonl") <= 400 * steps + 100 * restarts * restarts / 2))
is "no process is left" "" "$(left_behind)"
[[ ${HEDDLE_SOAK_SAMPLES-} ]] && cp "$work/samples" "$HEDDLE_SOAK_SAMPLES"
echo "$passed passed, $failed failed"
((failed == 0))
