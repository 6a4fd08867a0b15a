#!/usr/bin/env bash
# Rules that a compiler does not check. Each broken rule is printed with its places.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
passed=0 failed=0
libraries=(framework parallel layers models notebooks_export)
all=("${libraries[@]}" experiments packaging python examples tests)

rule() {  # rule WHAT PLACES
  if [[ $2 ]]; then
    failed=$((failed + 1))
    printf '%s:\n%s\n' "$1" "$2"
  else
    passed=$((passed + 1))
  fi
}
files() {  # files PATTERN FOLDER...
  find "${@:2}" -type f 2>/dev/null | grep -E "$1"
}
search() { xargs -d '\n' -r grep -nHE "$1" --; }

rule "an include points against the arrows between the parts of the code" "$(tests/style/includes.py arrows)"
rule "headers include each other" "$(tests/style/includes.py cycles)"
rule "a name is private to several files of a library, which a unity build may compile as one" "$(
  for library in "${libraries[@]}" experiments/*/ tests; do tests/style/private_names.py "$library"; done)"
rule "a private header of a backend is included elsewhere" "$(  # tests may
  for backend in cpu cuda plan; do
    files '\.(h|cpp|cu|cuh)$' "${libraries[@]}" experiments | grep -v "^framework/backends/$backend/" |
      search "#include \"framework/backends/$backend/"
  done)"
rule "a test is not in the namespace heddle::test" "$(
  files '_test\.cpp$' tests | xargs -d '\n' -r grep -LE '^namespace heddle::test\b' --)"
rule "doctest::Approx without a .scale, which takes all numbers that are far below 1 for equal (tests/support/compare/close_to.h)" "$(
  files '\.(h|cpp)$' tests | grep -v '^tests/support/compare/close_to.h$' | search 'doctest::Approx' | grep -vF '.scale(')"
rule "an include does not start at the root" "$(files '\.(h|cpp|cu|cuh)$' "${all[@]}" | search '#include "\.')"
rule "a file is longer than 400 lines" "$(
  files '\.(h|cpp|cu|cuh|sh|py|html)$|^heddle$|^\.ci/run$' heddle .ci "${all[@]}" | xargs -d '\n' wc -l |
    awk '$2 != "total" && $1 > 400')"
rule "a folder has more than 30 entries" "$(  # shipped experiments and their claims are counted apart
  find "${all[@]}" -mindepth 1 ! -name __pycache__ ! -name '*.pyc' | grep -vE '^experiments/(claims/)?[^/]*\.json$' |
    sed 's|/[^/]*$||' | sort | uniq -c | awk '$1 > 30')"
rule "a limit or an extreme is not called max_... or min_..." "$(
  files '\.(h|cpp|cu|cuh|py|js)$' "${all[@]}" |
    search '\b(maximum|minimum|most|fewest|largest|smallest|least|longest|greatest|highest|lowest)_[a-z]|constexpr [^=(]* (most|fewest|largest|smallest|least|longest|shortest)( =|\{|;)')"
rule "a library exits" "$(
  files '\.(h|cpp|cu|cuh)$' "${libraries[@]}" experiments | grep -v '^experiments/program/main.cpp$' |
    search '(^|[^.[:alnum:]_])(exit|_Exit|quick_exit|std::abort|std::terminate)\(')"
rule "a library prints" "$(
  files '\.(h|cpp|cu|cuh)$' "${libraries[@]}" | search 'std::(cout|cerr|clog)|fmt::print\(|\bf?(printf|puts)\(')"
rule "something is unfinished" "$(
  files '\.(h|cpp|cu|cuh|sh|py|json|txt)$|^heddle$' heddle CMakeLists.txt "${all[@]}" | grep -v '^tests/style.sh$' | search '\b(TODO|FIXME|XXX)\b')"
headers=$(files '\.(h|cuh)$' "${all[@]}")
rule "a header has no #pragma once" "$(xargs -d '\n' -r grep -LxF '#pragma once' <<<"$headers")"
rule "a header does not begin with its purpose" "$(
  while IFS= read -r file; do [[ $(head -n 1 "$file") == //* ]] || echo "$file"; done <<<"$headers")"
rule "a cell of the notebook is not Python" "$(  # lines that begin with % are Jupyter's own
  for cell in notebooks_export/cells/*.py; do
    sed 's/^%/#%/' "$cell" | python3 -c 'import sys; compile(sys.stdin.read(), sys.argv[1], "exec")' "$cell" 2>&1
  done)"
if command -v pyflakes3 >/dev/null; then  # a cell uses the names of the cells before it
  rule "the notebook has names that nothing defines or uses" "$(
    cd notebooks_export/cells && grep append ../cells.cpp | grep -oE '[a-z_]+\.py' | xargs sed -s 's/^%/#%/' | pyflakes3 2>&1)"
fi
if command -v pyflakes3 >/dev/null; then
  rule "the Python package, a test or a peer has names that nothing defines or uses" "$(pyflakes3 python/heddle tests/packaging tests/faults experiments/program/bench/peers 2>&1)"
fi
if command -v shellcheck >/dev/null; then rule "a script is unsafe" "$(shellcheck -x heddle .ci/run tests/*.sh tests/packaging/*.sh tests/support/*.sh tests/notebooks_export/*.sh tests/parallel/transports/*.sh experiments/program/launcher/*.sh)"; fi

echo "$passed passed, $failed failed"
((failed == 0))
