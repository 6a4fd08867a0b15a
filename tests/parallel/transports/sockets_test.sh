#!/usr/bin/env bash
# Processes that connect by sockets: a run that must equal that of threads, and the errors and exit codes of all of them
# when they cannot connect or one is killed. shellcheck disable=SC2009
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../../.." || exit 1
unset RANK WORLD_SIZE LOCAL_RANK OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMIX_RANK SLURM_PROCID
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh

start() {  # start RANK SIZE OUT ARGUMENTS..: in the background; its output and exit code go to $work/{out,err,code}.RANK
  (
    RANK=$1 WORLD_SIZE=$2 timeout -k 5 120 ./heddle run "${study:-$work/small.json}" --out "$work/$3" "${@:4}" \
      >"$work/out.$1" 2>"$work/err.$1"
    echo $? >"$work/code.$1"
  ) &
}
codes() { cat "$work"/code.* | xargs; }  # of all, once they have ended; forgotten then
said() { grep '^heddle: ' "$work/err.$1"; }
next_port() {  # below the ports that the system gives to connecting sockets
  MASTER_PORT=$((MASTER_PORT + 1))
  rm -f "$work"/{out,err,code}.*
}
program_of_rank() { process experiments/heddle "$work" "RANK=$1"; }

cat >"$work/small.json" <<'JSON'
{
  "name": "small", "mesh": {"dp": 2}, "threads": 1, "seed": 3,
  "data": {"type": "synthetic_identities", "identities": 20, "image": [3, 16, 16]},
  "model": {"type": "mlp", "hidden": [64], "embedding": 32, "embedding_norm": true},
  "head": {"classes": 1003}, "train": {"batch": 22, "steps": 4}, "evaluation": {},
  "variants": [{"name": "first", "patch": {}}, {"name": "second", "patch": {"head": {"logits": "gathered"}}}]
}
JSON
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 7000))
HEDDLE_JOB_SECRET=$(head -c 32 /dev/urandom | base64)
export HEDDLE_JOB_SECRET

./heddle run "$work/small.json" --set mesh.dp=4 --out "$work/threads" --json >"$work/threads.json" 2>/dev/null
for rank in 3 2 1 0; do start $rank 4 sockets --set mesh.dp=4 --json; done
wait
is "a run ends well" "0 0 0 0" "$(codes)"
is "its losses have the bits of threads" "$(losses "$work/threads.json")" "$(losses "$work/out.0")"
is "its checkpoints have the bytes of threads" "" "$(diff -rq "$work/threads/checkpoint" "$work/sockets/checkpoint" 2>&1)"
is "only the first prints" "" "$(cat "$work"/{out,err}.[123])"
has "the summary names the sockets" '"processes": "sockets"' "$(<"$work/out.0")"

for victim in 1 0; do
  next_port
  for rank in 0 1; do start $rank 2 killed --set train.steps=1000000; done
  when "$work/killed/metrics.jsonl" '"step": *3'
  pid=$(program_of_rank $victim)
  before=$SECONDS
  kill -KILL "$pid"
  wait
  is "a killed process ends the job with 4" "4 4" "$(codes)"
  has "rank $victim and its signal are named" "heddle: rank $victim: process $pid (" "$(said $victim)"
  is "within 10 s" 1 $((SECONDS - before < 10))
  if ((victim)); then
    has "the results name it" "rank 1: its process has ended" "$(<"$work/killed/summary.json")"
    is "and so does what is printed, which is no further variant's" "1 0" \
      "$(grep -c 'rank 1: its process has ended' "$work/out.0") $(grep -c second "$work/out.0")"
  else
    is "the other rank names rank 0" "heddle: rank 1: rank 0: its process has ended" "$(said 1)"
  fi
  is "no process is left" "" "$(left_behind)"
  rm -rf "$work/killed"
done

# A process is killed that the first variant does not need, and the second one does.
next_port
sed 's/"name": "first", "patch": {/&"mesh": {"dp": 2}/; s/"mesh": {"dp": 2}, "threads"/"mesh": {"dp": 3}, "threads"/; s/"batch": 22/"batch": 24/' \
  "$work/small.json" >"$work/spare.json"
for rank in 0 1 2; do study=$work/spare.json start $rank 3 spare --set train.steps=2000; done
at_step "$work/spare" 3
kill -KILL "$(program_of_rank 2)"
wait
is "a process that only the second variant needs ends the job with 4" "4 4 4" "$(codes)"
has "the first variant has ended without it" '"status": "ok"' "$(<"$work/spare/summary.json")"
has "this is said" "rank 2: its process has ended, and this variant does not need it" "$(<"$work/err.0")"
is "so is why the second one cannot begin" "heddle: second cannot begin: rank 2: its process has ended" "$(said 0)"
is "no process is left" "" "$(left_behind)"

# A rank that is stopped for longer than a wait is asked about is late, and nothing else.
next_port
for rank in 0 1 2; do start $rank 3 paused --set mesh.dp=3 --set train.steps=300; done
for pause in 2:50 2:100 1:150 0:200; do
  at_step "$work/paused" "${pause#*:}"
  stop_for 5 "$(program_of_rank "${pause%:*}")"
done
wait
is "a job continues whose ranks were stopped for 5 s, one after the other" "0 0 0" "$(codes)"
is "there is no error" "" "$(cat "$work"/err.[12]; said 0)"

# The whole job is stopped for longer than a wait may last: with processes, and with threads.
next_port
for rank in 0 1 2; do start $rank 3 stopped --set mesh.dp=3 --set train.steps=200 --set timeout=3; done
at_step "$work/stopped" 50
mapfile -t pids < <(for rank in 0 1 2; do program_of_rank $rank; done)
stop_for 8 "${pids[@]}"
wait
is "a job continues that was stopped for longer than its timeout" "0 0 0" "$(codes)"
next_port
timeout -k 5 120 ./heddle run "$work/small.json" --out "$work/one" --set mesh.dp=3 --set train.steps=2000 \
  --set timeout=3 >"$work/out.0" 2>"$work/err.0" &
at_step "$work/one" 100
stop_for 8 "$(process experiments/heddle "$work/one")"
wait $!
is "so does one whose ranks are threads" 0 $?
is "it prints nothing about that" "" "$(said 0)"

# Strangers: before the job meets, and when it runs.
next_port
start 0 2 strangers --set train.steps=1000000
HEDDLE_JOB_SECRET=another start 1 2 none
when "$work/code.1" 2
is "a process with another secret reports this" \
  "heddle: rank 1: rank 0 at 127.0.0.1:$MASTER_PORT has another HEDDLE_JOB_SECRET, or none" "$(said 1)"
rm "$work/code.1"
HEDDLE_JOB_SECRET='' start 1 2 none
when "$work/code.1" 2
is "so does a process without one" \
  "heddle: rank 1: rank 0 at 127.0.0.1:$MASTER_PORT has a HEDDLE_JOB_SECRET, and this process has none" "$(said 1)"
rm "$work/code.1"
start 1 2 strangers --set train.steps=1000000
when "$work/strangers/metrics.jsonl" '"step": *3'
is "the job runs without them" "" "$(said 0)"
(: </dev/tcp/127.0.0.1/"$MASTER_PORT") 2>/dev/null
is "its port is closed meanwhile" 1 $?
RANK=1 WORLD_SIZE=2 HEDDLE_RENDEZVOUS_SECONDS=1 ./heddle run "$work/small.json" --out "$work/none" >"$work/out" 2>"$work/err"
is "a rank that starts twice ends with 4" 4 $?
is "it reports why rank 0 may not answer" "heddle: rank 1: rank 0 at 127.0.0.1:$MASTER_PORT cannot be reached: Connection \
refused (it has not started, has ended, or all ranks of its job have connected already)" "$(<"$work/err")"
kill -TERM "$(program_of_rank 0)" "$(program_of_rank 1)"
wait
is "no process is left" "" "$(left_behind)"

# Rank 0, which prints for all, is stopped for good.
next_port
for rank in 0 1 2 3; do start $rank 4 silent --set mesh.dp=4 --set train.steps=1000000 --set timeout=4; done
at_step "$work/silent" 3
pid=$(program_of_rank 0)
before=$EPOCHREALTIME
kill -STOP "$pid"
when "$work/err.1" "timed out after 4 s waiting for rank 0"
is "rank 0 is named within 2 s after the timeout" 1 $(($(seconds_since "$before") <= 6))
when "$work/code.1" 4
when "$work/code.2" 4
when "$work/code.3" 4
is "the others have left within 20 s" 1 $(($(seconds_since "$before") <= 20))
is "one of them has reported the reason" "1 0 0" "$(grep -c '' "$work/err.1") $(grep -c '' "$work/err.2") $(grep -c '' "$work/err.3")"
is "with this text" "heddle: rank 1: a rank's call: timed out after 4 s waiting for rank 0" \
  "$(said 1 | sed "s/rank [1-3], call [0-9]*: [^:]*:/a rank's call:/")"
kill -KILL "$pid"
wait
is "no process is left" "" "$(left_behind)"

next_port
export HEDDLE_RENDEZVOUS_SECONDS=2
start 0 2 none
MASTER_PORT=$((MASTER_PORT + 5000)) start 1 2 none
wait
is "two rendezvous addresses end the job with 4" "4 4" "$(codes)"
is "rank 0 names the rank that did not connect" "heddle: rank 1 did not connect to 127.0.0.1:$MASTER_PORT within 2 s" "$(said 0)"
is "rank 1 names where it looked" \
  "heddle: rank 1: rank 0 at 127.0.0.1:$((MASTER_PORT + 5000)) cannot be reached: Connection refused (it has not started, has ended, or all ranks of its job have connected already)" "$(said 1)"

next_port
start 0 2 none
sleep 0.5
RANK=0 WORLD_SIZE=2 ./heddle run "$work/small.json" --out "$work/none" >"$work/out" 2>"$work/err"
is "a port in use is wrong input" 2 $?
is "the port is named" "heddle: MASTER_PORT: cannot listen on port $MASTER_PORT: Address already in use" "$(<"$work/err")"
wait

next_port
start 0 4 none
start 1 5 none
wait
is "a rank of another job is turned away, and its own job is not complete" "4 2" "$(codes)"
has "both report rank and size" " was turned away: it is rank 1 of 5" "$(said 0)"
has "both report rank and size" "heddle: rank 1: WORLD_SIZE and RANK: rank 1 of 5 connected from 127.0.0.1:" "$(said 1)"

next_port
start 0 2 none
start 1 2 none --set seed=7
wait
is "other experiments are wrong input" "2 2" "$(codes)"
is "the key and the rank are named" "heddle: rank 1 was given a different experiment from rank 0: seed is 7, on rank 0 it is 3" "$(said 0)"
next_port
start 0 2 none
start 1 2 none --resume
wait
has "so are other options" "heddle: rank 1 was called with --out \"" "$(said 0)"

# One path, of which each process sees its own machine's folder.
cat >"$work/faces.json" <<'END'
{"name": "faces", "mesh": {"dp": 2}, "data": {"type": "image_folder", "path": "faces", "image": [1, 8, 8],
 "train_per_identity": 2}, "model": {"type": "mlp", "hidden": [8], "embedding": 4}, "head": {"classes": 3},
 "train": {"batch": 4, "steps": 1}}
END
next_port
heddle=$PWD/heddle
[[ ! ${HEDDLE_BUILD_DIR-} ]] || HEDDLE_BUILD_DIR=$(realpath "$HEDDLE_BUILD_DIR")
for rank in 0 1; do
  for person in a b c; do
    [[ $rank$person == 1c ]] && continue
    mkdir -p "$work/machine.$rank/faces/$person"
    for image in 1 2 3 4; do
      { printf 'P5 8 8 255\n'; printf "%064d" 0; } >"$work/machine.$rank/faces/$person/$image.pgm"
    done
  done
  (cd "$work/machine.$rank" && RANK=$rank WORLD_SIZE=2 exec "$heddle" run ../faces.json --out "$work/none" \
    >"$work/out.$rank" 2>"$work/err.$rank") &
done
wait
has "unequal data is reported with the rank" "heddle: rank 1: data: 2 people, 4 training images" "$(said 0)"

next_port
start 0 2 none --set train.steps=-1
start 1 2 none --set train.steps=-1
wait
is "a wrong file ends all with 2" "2 2" "$(codes)"
is "it is reported once" "1 0" "$(grep -c 'train' "$work/err.0") $(grep -c '' "$work/err.1")"

wrong() {  # wrong WORDS VARIABLE=VALUE..: a process with these ends with 2 and these words
  (
    export RANK=1 WORLD_SIZE=2
    export "${@:2}"
    ./heddle run "$work/small.json" --out "$work/none" >"$work/out" 2>"$work/err"
  )
  is "${*:2} is wrong input" 2 $?
  has "${*:2} is reported" "$1" "$(<"$work/err")"
}
for rank in 0 1; do
  prefix='heddle: '
  ((rank)) && prefix='heddle: rank 1: '
  wrong "${prefix}MASTER_ADDR: no.such.host.invalid: " RANK=$rank MASTER_ADDR=no.such.host.invalid
  wrong "${prefix}MASTER_PORT: expected a port of [1, 65535], got '65536'" RANK=$rank MASTER_PORT=65536
  wrong "${prefix}WORLD_SIZE: expected a number of [1, 1024], got 0" RANK=$rank WORLD_SIZE=0
  wrong "${prefix}HEDDLE_RENDEZVOUS_SECONDS: expected a number of [1, 86400], got 'soon'" RANK=$rank HEDDLE_RENDEZVOUS_SECONDS=soon
done
wrong "heddle: rank 5: RANK: expected one of [0, 4), got 5" RANK=5 WORLD_SIZE=4
wrong "heddle: RANK and WORLD_SIZE: expected two numbers, got 'first' and '2'" RANK=first
wrong "heddle: MASTER_ADDR and MASTER_PORT: expected a host and a port, got '127.0.0.1' and nothing" MASTER_PORT=
wrong "heddle: MASTER_ADDR and MASTER_PORT: expected a host and a port, got nothing and nothing" MASTER_ADDR= MASTER_PORT=

wrong "heddle: HEDDLE_INTERFACE: expected the name of an interface, or a subnet such as 10.0.0.0/8, got '10.0.0.0/99'" \
  RANK=0 HEDDLE_INTERFACE=10.0.0.0/99
wrong "heddle: rank 1: HEDDLE_INTERFACE: this machine has no interface 'none7' with an IPv4 address; it has lo (127.0.0.1)" \
  RANK=1 HEDDLE_INTERFACE=none7
address=$(sed -nE 's/.*, [^ ]+ \(([0-9.]+)\).*/\1/p' "$work/err")  # of another interface, if there is one
export HEDDLE_RENDEZVOUS_SECONDS=60
next_port
for rank in 0 1; do HEDDLE_INTERFACE=lo start $rank 2 interface; done
wait
is "a job meets at an interface" "0 0" "$(codes)"
if [[ $address ]]; then
  next_port
  for rank in 0 1; do MASTER_ADDR=$address HEDDLE_INTERFACE=$address/24 HEDDLE_JOB_SECRET='' start $rank 2 subnet; done
  wait
  is "a job meets at a subnet" "0 0" "$(codes)"
  has "it reports once that it has no secret" \
    "note: HEDDLE_JOB_SECRET is not set: every program that reaches $address:$MASTER_PORT can join this job" "$(<"$work/err.0")"
  is "only rank 0 reports this" "" "$(<"$work/err.1")"
fi
is "no process is left in the end" "" "$(left_behind)"

echo "$passed passed, $failed failed"
((failed == 0))
