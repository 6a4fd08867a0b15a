#!/usr/bin/env bash
# The HTML pages that the program writes, opened in Chromium (browser_pages.py): those of a study of pipelines, of an
# evaluation during the training, of budgets, and of all schedules. The last line says how many checks passed.
#
#   tests/notebooks_export/browser_test.sh [SCREENSHOTS]    a folder into which the pages are photographed
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0
check() {  # check WHAT COMMAND...
  if "${@:2}" >"$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: %s\n' "$1"
    tail -n 5 "$work/log"
  fi
}

cat >"$work/study.json" <<'END'
{
  "name": "a study of pipelines",
  "memory_budget": 200000,
  "data": {"type": "synthetic_identities", "identities": 10, "image": [1, 8, 8], "train_per_identity": 8, "test_per_identity": 2},
  "model": {"type": "mlp", "hidden": [32, 32, 32, 32, 32, 32], "embedding": 16},
  "head": {"classes": 10},
  "train": {"batch": 16, "micro_batches": 8, "steps": 4},
  "evaluation": {"every": 2, "sets": [{"name": "drawn", "type": "drawn"}]},
  "variants": [
    {"name": "serial", "patch": {"train": {"micro_batches": 1}}},
    {"name": "naive", "patch": {"mesh": {"pp": 2}, "pipeline": {"schedule": "naive"}, "train": {"micro_batches": 1}}},
    {"name": "gpipe, a name that is far too long for the label of an axis", "patch": {"mesh": {"pp": 2}, "pipeline": {"schedule": "gpipe", "recompute": "always"}}},
    {"name": "zb_h1", "patch": {"mesh": {"pp": 2}, "pipeline": {"schedule": "zb_h1"}, "ranks": {"memory_budget": [180000, 150000]}}},
    {"name": "interleaved", "patch": {"mesh": {"pp": 2}, "pipeline": {"schedule": "interleaved"}}},
    {"name": "$data-parallel$ _2_", "patch": {"mesh": {"dp": 2}, "memory_budget": 0}}
  ]
}
END
check "the study runs" ./heddle run "$work/study.json" --out "$work/study"
check "its page is made" ./heddle notebook "$work/study"
check "the page of all schedules is made" ./heddle schedule --html "$work/schedules.html"
for figure in speedup share_of_ideal prediction timeline memory loss roc accuracy time; do
  check "figures/$figure.svg" grep -q '</svg>' "$work/study/figures/$figure.svg"
  check "figures/$figure.png" grep -q IHDR "$work/study/figures/$figure.png"
done
for number in 1 2 3 4; do check "figures/schedule-$number.svg" grep -q '</svg>' "$work/study/figures/schedule-$number.svg"; done
check "equal schedules share a picture" test ! -e "$work/study/figures/schedule-5.svg"
check "a page of at most 2 MB" test "$(stat -c %s "$work/schedules.html")" -le 2000000

options=()
if (($#)); then
  mkdir -p "$1"
  options=(--screenshots "$1")
fi
output=$(python3 tests/notebooks_export/browser_pages.py "${options[@]}" "$work/study/notebook.html" "$work/schedules.html" 2>&1)
printf '%s\n' "$output" | sed '$d'
read -r good _ bad _ < <(tail -n 1 <<<"$output")
if [[ $good =~ ^[0-9]+$ && $bad =~ ^[0-9]+$ ]]; then
  passed=$((passed + good)) failed=$((failed + bad))
else
  printf '%s\n' "$output"
  failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
((failed == 0))
