#!/usr/bin/env bash
# Many processes, with the given MPIs (openmpi, mpich) or each that is here: the suite of the transports; runs that must
# be those of threads; and what happens when processes fail, stall or are killed.
# shellcheck disable=SC2009
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # CI is root
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMIX_RANK SLURM_PROCID
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

on() {  # on RANKS COMMAND..: with this MPI's mpirun
  local more=()
  [[ $mpi == openmpi ]] && more=(--oversubscribe)
  timeout -k 5 900 "mpirun.$mpi" "${more[@]}" -n "$@" </dev/null
}
call() {  # call RANKS ARGUMENTS..: the launcher on so many ranks; leaves its output in $out, $err and $code
  on "$1" ./heddle "${@:2}" >"$work/out" 2>"$work/err"
  code=$?
  out=$(<"$work/out") err=$(<"$work/err")
}
program_of_rank() { process "heddle_$mpi" "$work" "(OMPI_COMM_WORLD|PMI)_RANK=$1"; }

cat >"$work/small.json" <<'JSON'
{
  "name": "small", "mesh": {"dp": 4}, "threads": 1, "seed": 3,
  "data": {"type": "synthetic_identities", "identities": 20, "image": [3, 16, 16]},
  "model": {"type": "mlp", "hidden": [64], "embedding": 32, "embedding_norm": true},
  "head": {"classes": 1003}, "train": {"batch": 22, "steps": 4, "save_every": 2}, "evaluation": {},
  "variants": [{"name": "gathered", "patch": {"head": {"logits": "gathered"}}},
               {"name": "two", "patch": {"mesh": {"dp": 2}}}, {"name": "sharded", "patch": {}}]
}
JSON

cat >"$work/pipelines.json" <<'JSON'
{
  "name": "pipelines", "mesh": {"pp": 4}, "threads": 1, "seed": 3,
  "data": {"type": "synthetic_identities", "identities": 20, "image": [3, 8, 8]},
  "model": {"type": "resnet18", "stem": "small", "embedding": 32, "dropout": 0.2},
  "head": {"classes": 103, "over": ["dp", "tp"]}, "train": {"batch": 19, "micro_batches": 8, "steps": 2}, "evaluation": {},
  "pipeline": {"predict": false},
  "variants": [{"name": "1f1b", "patch": {"pipeline": {"recompute": "always", "predict": true}}},
               {"name": "zb_v", "patch": {"pipeline": {"schedule": "zb_v"}}},
               {"name": "interleaved", "patch": {"pipeline": {"schedule": "interleaved", "chunks": 2}}},
               {"name": "dualpipe", "patch": {"pipeline": {"schedule": "dualpipe"}}},
               {"name": "dp", "patch": {"mesh": {"dp": 2, "pp": 2}, "pipeline": {"schedule": "zb_h1"}, "train": {"micro_batches": 4}}},
               {"name": "all", "patch": {"head": {"over": "all"}, "pipeline": {"schedule": "gpipe"}}}]
}
JSON

pipelines() {
  ./heddle run "$work/pipelines.json" --out "$work/stages" --json >"$work/stages.json" 2>"$work/err"
  call 4 run "$work/pipelines.json" --out "$work/stages_$mpi" --json
  is "pipelines end well" 0 "$code"
  is "their losses have the bits of threads" "$(losses "$work/stages.json")" "$(losses "$work/out")"
  is "their ranks sent the bytes of threads" "$(grep sent_bytes "$work/stages.json")" "$(grep sent_bytes "$work/out")"
  is "their checkpoints have the bytes of threads" "" "$(diff -rq "$work/stages/checkpoint" "$work/stages_$mpi/checkpoint" 2>&1)"

  on 3 ./heddle run "$work/pipelines.json" --out "$work/unequal" : \
    -n 1 ./heddle run "$work/pipelines.json" --out "$work/unequal" --set data.identities=19 \
    >"$work/out" 2>"$work/err"
  is "a different experiment is wrong input" 2 $?
  has "the rank and the key are reported" "rank 3 was given a different experiment from rank 0: data.identities is 19, on rank 0 it is 20" \
    "$(<"$work/err")"
}

failures() {
  call 4 run "$work/nothing.json"
  is "a missing file is wrong input" 2 "$code"
  is "it is reported once" 1 "$(grep -c 'nothing.json' <<<"$err")"
  call 4 run "$work/small.json" --out "$work/none" --set mesh.dp=2
  is "a job of a different size is wrong input" 2 "$code"
  has "both numbers are reported" "as many processes as the largest mesh has ranks, 2, got 4: mpirun -n 2" "$err"
  if ! nvidia-smi -L >/dev/null 2>&1; then
    call 4 run "$work/small.json" --out "$work/gpu" --set device=cuda
    is "no GPU is wrong input" 2 "$code"
    is "it is reported once" 1 "$(grep -c 'heddle: device cuda: ' <<<"$err")"
  fi
  call 4 run "$work/small.json" --out "$work/memory" --set memory_budget=100000
  is "out of memory keeps its exit code" 3 "$code"
  has "out of memory is in the results of rank 0" '"status": "out_of_memory"' "$(<"$work/memory/summary.json")"
  has "so is the memory of the other ranks" '"rank": 3' "$(<"$work/memory/summary.json")"
  is "where rank 3 held something" 0 "$(grep -c '"peak_bytes":.*"total": 0,' "$work/memory/summary.json")"

  local signal pid start
  for signal in KILL SEGV; do
    : >"$work/err"
    on 4 ./heddle run "$work/small.json" --out "$work/killed" --set train.steps=1000000 >"$work/out" 2>"$work/err" &
    when "$work/killed/metrics.jsonl" '"step": *3'
    pid=$(program_of_rank 2)
    start=$SECONDS
    kill -s "$signal" "$pid"
    wait $!
    is "a program killed by SIG$signal ends the job with 4" 4 $?
    has "the dead rank is named" "heddle: rank 2: process $pid (" "$(<"$work/err")"
    has "the signal is named" "was killed by SIG$signal" "$(<"$work/err")"
    is "within 10 s" 1 $((SECONDS - start < 10))
    is "no process is left" "" "$(left_behind)"
    rm -rf "$work/killed"
  done

  on 4 ./heddle run "$work/small.json" --out "$work/stopped" --set train.steps=1000000 --set timeout=2 \
    >"$work/out" 2>"$work/err" &
  when "$work/stopped/metrics.jsonl" '"step": *3'
  kill -STOP "$(program_of_rank 1)"
  wait $!
  is "a stalled rank ends the job with 4" 4 $?
  has "the stalled rank is named" "timed out after 2 s waiting for rank 1" "$(<"$work/stopped/summary.json")"
  is "not even the stopped process is left" "" "$(left_behind)"

  # Rank 0, which prints for all, is stopped for good.
  local before
  on 4 ./heddle run "$work/small.json" --out "$work/silent" --set train.steps=1000000 --set timeout=4 \
    >"$work/out" 2>"$work/err" &
  at_step "$work/silent" 3
  before=$EPOCHREALTIME
  kill -STOP "$(program_of_rank 0)"
  when "$work/err" "timed out after 4 s waiting for rank 0"
  is "rank 0 is named within 2 s after the timeout" 1 $(($(seconds_since "$before") <= 6))
  wait $!
  is "a stopped rank 0 ends the job with 4" 4 $?
  is "within 20 s" 1 $(($(seconds_since "$before") <= 20))
  # Open MPI's mpirun wakes rank 0 before it ends it, and rank 0 may still print what it finds then.
  is "only the lowest of the others reports it" "heddle: rank 1: a rank's call: timed out after 4 s waiting for rank 0" \
    "$(grep '^heddle: rank [1-3]' "$work/err" | sed "s/rank [1-3], call [0-9]*: [^:]*:/a rank's call:/")"
  is "no process is left" "" "$(left_behind)"

  # A rank that is stopped for longer than a wait is asked about is late, and nothing else.
  local pause pids job
  on 3 ./heddle run "$work/small.json" --out "$work/paused" --set mesh.dp=3 --set train.steps=300 \
    --set train.save=false >"$work/out" 2>"$work/err" &
  for pause in 2:50 2:100 1:150 0:200; do
    at_step "$work/paused" "${pause#*:}"
    stop_for 5 "$(program_of_rank "${pause%:*}")"
  done
  wait $!
  is "a job continues whose ranks were stopped for 5 s, one after the other" 0 $?
  is "there is no error" "" "$(grep '^heddle: ' "$work/err" | grep -v '^heddle: warning: ')"
  on 3 ./heddle run "$work/small.json" --out "$work/all" --set mesh.dp=3 --set train.steps=200 --set timeout=3 \
    --set train.save=false >"$work/out" 2>"$work/err" &
  job=$!  # mapfile's input also is a job
  at_step "$work/all" 50
  mapfile -t pids < <(for rank in 0 1 2; do program_of_rank "$rank"; done)
  stop_for 8 "${pids[@]}"
  wait "$job"
  is "a job continues that was stopped for longer than its timeout" 0 $?

  on 4 ./heddle run "$work/small.json" --out "$work/ended" --set train.steps=1000000 >"$work/out" 2>"$work/err" &
  when "$work/ended/metrics.jsonl" '"step": *3'
  kill -TERM "$(process "$(basename "$(readlink -f "$(command -v "mpirun.$mpi")")")" "$work")"
  wait $!
  is "ending mpirun leaves no process" "" "$(left_behind)"
}

(($#)) || set -- openmpi mpich
for mpi; do
  if ! command -v "mpirun.$mpi" >/dev/null; then
    echo "not run: $mpi: no mpirun.$mpi"
    continue
  fi
  # Another call may be building, for longer than the tests may take.
  "mpirun.$mpi" -n 1 ./heddle test --count </dev/null >"$work/out" 2>&1 || cat "$work/out"
  for ranks in 2 4; do
    on "$ranks" ./heddle test --no-intro >"$work/out" 2>&1
    code=$?
    grep -v 'skipped: needs\|^$\|^=*$\|^TEST CASE\|_test.cpp:[0-9]*:$' "$work/out"
    read -r good _ bad _ < <(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$work/out" | tail -n 1)
    ((code && !${bad:=1})) && bad=1
    echo "$mpi, $ranks processes: ${good:=0} passed, $bad failed"
    passed=$((passed + good)) failed=$((failed + bad))
  done

  ./heddle run "$work/small.json" --out "$work/threads" --json >"$work/threads.json" 2>"$work/err"
  call 4 run "$work/small.json" --out "$work/$mpi" --json
  is "a run ends well" 0 "$code"
  is "one process prints" 1 "$(grep -c '"variants"' <<<"$out")"
  is "the losses have the bits of threads" "$(losses "$work/threads.json")" "$(losses "$work/out")"
  is "the checkpoints have the bytes of threads" "" "$(diff -rq "$work/threads/checkpoint" "$work/$mpi/checkpoint" 2>&1)"
  is "each rank sent the bytes of threads" "$(grep sent_bytes "$work/threads.json")" "$(grep sent_bytes "$work/out")"
  declare -A names=([openmpi]="Open MPI" [mpich]=MPICH)
  has "the summary names the MPI" "\"processes\": \"${names[$mpi]} " "$out"
  call 4 run "$work/small.json" --out "$work/threads" --json --resume --set train.steps=6
  is "a run of threads resumes in processes" "0 resuming" "$code $(grep -o -m 1 'resuming' <<<"$err")"
  call 3 run "$work/small.json" --out "$work/threads" --resume --set train.steps=8 --set mesh.dp=3
  is "three processes resume the checkpoint of four" 0 "$code"
  has "it is reported" "resumes on a different layout (saved on dp 4" "$err"
  call 4 list models
  is "other commands are done once" 1 "$(grep -c '^models' <<<"$out")"
  pipelines
  failures
  rm -rf "$work"/{stages,unequal,threads,memory,stopped,silent,paused,all,ended} "${work:?}/$mpi" "${work:?}/stages_$mpi"
done
echo "$passed passed, $failed failed"
((failed == 0))
