# The checks of the tests of scripts, which count in $passed and $failed. To be sourced; $work is their folder.
# shellcheck shell=bash disable=SC2009,SC2034,SC2154
passed=0 failed=0

is() {  # is WHAT WANTED GOT; of tests that are run for several MPIs $mpi says for which
  if [[ $3 == "$2" ]]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED%s: %s\n  wanted: %q\n  got:    %q\n' "${mpi:+ ($mpi)}" "$1" "$2" "$3"
  fi
}
has() {  # has WHAT PART TEXT
  if [[ $3 == *"$2"* ]]; then is "$1" ok ok; else is "$1" "...$2..." "$3"; fi
}
when() {  # when FILE PATTERN: waits until it is there
  local end=$((SECONDS + 60))
  until grep -qs "$2" "$1"; do
    ((SECONDS < end)) || { is "$2 appears in $1 within 60 s" yes no; cat "$work"/err*; return; }
    sleep 0.1
  done
}
# The process of an executable whose command line has TEXT, and its environment a line like PATTERN.
process() {  # process EXECUTABLE TEXT [PATTERN]
  local folder words
  for folder in /proc/[0-9]*; do
    words=()
    mapfile -d '' words <"$folder/cmdline"  # first, because it starts no process: the job goes on meanwhile
    [[ ${words[*]} == *"$2"* && $(readlink "$folder/exe") == */$1 ]] || continue
    [[ ${3-} ]] && ! tr '\0' '\n' <"$folder/environ" | grep -qxE "$3" && continue
    echo "${folder#/proc/}"
    return
  done 2>/dev/null
}
at_step() {  # at_step FOLDER STEP: waits until its metrics are there
  when "$1/metrics.jsonl" "\"step\": *$2,"
}
stop_for() {  # stop_for SECONDS PROCESS..
  kill -STOP "${@:2}"
  sleep "$1"
  kill -CONT "${@:2}"
}
seconds_since() {  # seconds_since EPOCHREALTIME: rounded up
  echo $(((${EPOCHREALTIME//[!0-9]/} - ${1//[!0-9]/} + 999999) / 1000000))
}
losses() { sed -n '/"loss_per_step"/,/\]/p' "$1"; }
left_behind() {  # the processes of $work that have not ended within ten seconds
  local tries
  for ((tries = 0; tries < 100; ++tries)); do
    ps -eo args | grep -F "$work" | grep -qv grep || return
    sleep 0.1
  done
  ps -eo args | grep -F "$work" | grep -v grep
}
