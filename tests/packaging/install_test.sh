#!/usr/bin/env bash
# Installs Heddle into a folder, builds the examples against it, and runs them with the installed command.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh
build=${HEDDLE_BUILD_DIR:-$PWD/build/${HEDDLE_PRESET:-release}}

{ ./heddle setup && cmake --install "$build" --prefix "$work/prefix"; } >"$work/log" 2>&1
is "it is installed" 0 $?
heddle=$work/prefix/bin/heddle
cp -r examples "$work/examples"
for example in layer schedule margin program; do
  folder=$work/examples/own_$example
  { cmake -G Ninja -S "$folder" -B "$folder/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" &&
    cmake --build "$folder/build"; } >"$folder/log" 2>&1
  is "own_$example is built against the package" 0 $?
  tail -n 20 "$folder/log" | grep -B 5 -A 15 -i error
done

# ---- extensions ----------------------------------------------------------------------------------------------------

cd "$work" || exit 1
run() { NO_COLOR=1 "$heddle" "$@" 2>&1 </dev/null; }
library() { echo "examples/own_$1/build/own_$1.so"; }
losses_of() {  # the last loss of each variant, which agree to some digits
  python3 -c 'import json, sys; print(*sorted({round(v["loss"]["last"], 3) for v in json.load(open(sys.argv[1]))["variants"]}))' \
    "$1/summary.json"
}
for example in layer schedule margin; do
  run --extension "$(library $example)" run examples/own_$example/own_$example.json --out $example >$example.out
  is "own_$example.json runs" 0 $?
  is "all variants of own_$example.json end with one loss" 1 "$(losses_of $example | wc -w)"
done
is "without its extension a name is unknown" 2 "$(run validate examples/own_layer/own_layer.json >out; echo $?)"
has "and the error says so" '"swish"' "$(<out)"
has "the keys of a layer are described" "beta  number > 0  1        the steepness of the gate" \
  "$(run --extension "$(library layer)" help model.layers.swish.beta)"
has "an own key has its bounds" "expected a number > 0" \
  "$(run --extension "$(library layer)" validate examples/own_layer/own_layer.json --set 'model.layers=[{"type": "swish", "beta": 0}]')"
has "the schema knows it" '"const": "swish"' "$(run --extension "$(library layer)" schema)"
has "the list of layers has it" "swish                 x * sigmoid(beta * x)" "$(run --extension="$(library layer)" list layers)"
run --extension "$(library layer)" export layer/checkpoint/serial --format onnx --out layer.onnx >out
is "a checkpoint with it is exported" 0 $?
has "without it the checkpoint cannot be read" 'swish' "$(run export layer/checkpoint/serial --format onnx --out none.onnx)"
has "a schedule of one's own is drawn" "2f2b: 4 ranks, 8 micro-batches" \
  "$(run --extension "$(library schedule)" schedule 2f2b --stages 4 --micro-batches 8)"
has "a search finds it" "2f2b" "$(run --extension "$(library schedule)" schedule --search --stages 3 --micro-batches 6 --costs 1,1,1,0.5 --json)"
has "a margin's setting has bounds" "expected a number from 0 to 3.14159" \
  "$(run --extension "$(library margin)" validate examples/own_margin/own_margin.json --set head.margin.m=4)"
has "a GPU cannot call it" "expected a margin of Heddle's own with device cuda, got \"li_arcface\" of an extension, whose function is the CPU's" \
  "$(run --extension "$(library margin)" validate examples/own_margin/own_margin.json --set device=cuda)"
has "it takes cosines" "margins act on angles: with \"normalize\": false expected type combined or l_softmax" \
  "$(run --extension "$(library margin)" validate examples/own_margin/own_margin.json --set head.normalize=false)"
has "a program of one's own trains" "rank 0 held " "$(examples/own_program/build/own_program)"

refused() {  # refused FILE MESSAGE
  is "$1 is refused" 2 "$(run --extension "$1" list layers >out; echo $?)"
  is "and the error says why" "heddle: extension $1: $2" "$(<out)"
}
refused none.so "expected a shared library, found no such file"
echo text >text.so
is "a text is no library" 2 "$(run --extension text.so list >out; echo $?)"
has "and the error names the file" "heddle: extension text.so: it cannot be opened: " "$(<out)"
compiled() { gcc -shared -fPIC -x c -o "$1" -; }
compiled empty.so <<<'int none;'
refused empty.so "expected a library that was built with Heddle::extension and defines heddle_extension_version"
compiled old.so <<<'const char heddle_extension_version[] = "0.0.1";'
refused old.so "it was built for Heddle 0.0.1, and this is Heddle $("$heddle" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)"
for example in layer schedule margin; do
  run --extension "$(library $example)" --extension "$(library $example)" list >out
  is "own_$example cannot be added twice" 2 $?
done
is "and the error names the margin" "heddle: extension $(library margin): there is a margin \"li_arcface\" already" "$(<out)"
is "a misspelt command after an extension is corrected" 'did you mean "run"?' "$(run --extension "$(library margin)" rum | grep -o 'did you mean.*')"

# ---- the manual page and completions -----------------------------------------------------------------------------------

page=prefix/share/man/man1/heddle.1
has "the manual page has every command" "heddle data pack" "$(sed 's/[\\]//g' $page)"
if command -v groff >/dev/null; then
  is "the manual page is sound roff" "" "$(groff -man -Tutf8 -ww -z $page 2>&1)"
fi
completed() {  # completed WORD..: what bash offers for the last word
  bash -c 'source prefix/share/bash-completion/completions/heddle
           COMP_WORDS=(heddle "$@") COMP_CWORD=$#; _heddle; echo "${COMPREPLY[*]}"' - "$@"
}
is "bash completes a command" "reproduce" "$(completed rep)"
is "bash completes a command's command" "pack" "$(completed data pa)"
is "bash completes an option after other words" "--micro-batches" "$(completed schedule 1f1b --stages 4 --mi)"
if command -v zsh >/dev/null; then is "zsh reads its completions" "" "$(zsh -n prefix/share/zsh/site-functions/_heddle 2>&1)"; fi
if command -v fish >/dev/null; then is "fish reads its completions" "" "$(fish -n prefix/share/fish/vendor_completions.d/heddle.fish 2>&1)"; fi
is "another shell has none" 2 "$(run completion csh >out; echo $?)"

echo "$passed passed, $failed failed"
((failed == 0))
