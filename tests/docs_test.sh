#!/usr/bin/env bash
# Compares the documents with the tree: every relative link, anchor and file that they name exists, and every command in
# a fenced `sh` block runs, or stands in the list below with the reason why it does not run here. The lines of a block
# that is marked `text output` must come, in this order, in what the command before it prints.
set -u
unset RANK OMPI_COMM_WORLD_RANK PMI_RANK PMI_SIZE PMI_FD PMIX_RANK SLURM_PROCID MASTER_ADDR MASTER_PORT
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
documents=(README.md CONTRIBUTING.md CHANGELOG.md experiments/README.md docs/*.md)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Commands run in a folder that looks like the root, so that their results do not stay in the tree.
for name in heddle experiments tests docs; do ln -s "$root/$name" "$work/$name"; done

claimed="is a command of ./heddle reproduce --quick; tests/experiments/program/long runs those of every experiment"
cuda="needs the CUDA toolkit"
data="needs the ORL photographs"
elastic="takes longer than a minute; tests/faults/faults.py runs elastic jobs"
faces="needs Labeled Faces in the Wild; tests/experiments/program/face_walk_test.cpp walks with drawn faces"
docker="needs a Docker daemon"
long="takes longer than a minute; tests/experiments/program/long checks the claims of every shipped experiment, shortened"
mpi="needs an MPI; tests/parallel/transports has its tests"
results="needs the results of a command that does not run here"
step="is a step of .ci/run"
# shellcheck disable=SC2016
elastic_job='for rank in 0 1 2 3; do
RANK=$rank WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./heddle run experiments/elastic.json --elastic --out results/elastic &
done; wait'
declare -A apart=(  # the commands that do not run here, one per line, and why
  ["$elastic_job"]=$elastic
  ["docker build -t heddle ."]=$docker
  ["docker run --rm heddle run experiments/quickstart.json --out /tmp/quickstart"]=$docker
  ["./heddle bench"]=$long
  ["tests/faults/faults.py --tries 12"]=$long
  ["tests/faults/kills.py"]=$long
  ["tests/faults/network.py --tries 48 --at-once 6 --seed 48"]=$long
  ["./heddle bench collectives"]=$long
  ["./heddle bench data --images /data/lfw --crop 136 --size 64"]="needs a folder of photographs; tests/experiments/program/bench_test.cpp reads one"
  ["./heddle bench comparisons"]=$long
  ["./heddle bench head"]=$long
  ["./heddle bench head --long"]=$long
  ["./heddle bench head --long --peer python3"]=$long
  ["./heddle bench head --protocol plsc --set model.type=mobilefacenet --set train.batch=32 --set train.steps=40 --runs 3"]=$long
  ["./heddle bench ops"]=$long
  ["./heddle bench search"]=$long
  ["./heddle bench steps"]=$long
  ["./heddle bench steps --peer python3"]=$long
  ["./heddle bench steps --peer python3 --json > before.json"]=$long
  ["./heddle bench steps --compare before.json"]=$long
  ["./heddle data check PATH/TO/lfw"]=$faces
  ["./heddle data pack PATH/TO/lfw PATH/TO/faces/train.rec --people PATH/TO/lfw_protocol/peopleDevTrain.txt"]=$faces
  ["./heddle data show PATH/TO/lfw --sheet lfw.png"]=$faces
  ["./heddle data show dev_test.bin"]=$faces
  ["./heddle eval results/faces"]=$faces
  ["./heddle eval results/faces --set 'evaluation.sets=[{\"name\": \"dev_test\", \"type\": \"bin\", \"path\": \"dev_test.bin\"}]'"]=$faces
  ["./heddle embed results/orl_faces PATH/TO/IMAGES --out embeddings.npy"]=$results
  ["./heddle compare results/quickstart results/orl_faces --html results/compared.html"]=$results
  ["./heddle embed results/orl_faces PATH/TO/GALLERY --out gallery.npy"]=$results
  ["./heddle search results/orl_faces PATH/TO/GALLERY PATH/TO/PROBES --flip"]=$results
  ["./heddle search results/orl_faces gallery.npy PATH/TO/PROBES --index index.npy"]=$results
  ["./heddle export results/orl_faces --format onnx --out model.onnx"]=$results
  ["HEDDLE_PRESET=asan HEDDLE_TEST_MUTATIONS=0-1000000 ./heddle test --source-file='*_mutations_test.cpp'"]=$long
  ["tests/fuzz/fuzz.py --seconds 60"]=$long
  ["./heddle export results/orl_faces --format safetensors --out model"]=$results
  ["./heddle import backbone.pth --out backbone.safetensors"]="needs a file of PyTorch; tests/experiments/import has some"
  ["./heddle notebook results/exact_or_sampled"]=$results
  ["./heddle notebook results/gpipe_vs_naive"]=$results
  ["./heddle eval results/quickstart/checkpoint/sharded --set 'evaluation.sets=[{\"name\": \"drawn\", \"type\": \"drawn\"}]'"]=$results
  ["./heddle notebook results/head_scaling"]=$results
  ["./heddle notebook results/quickstart"]="needs Jupyter; tests/notebooks_export has its tests"
  ["./heddle plan experiments/ten_million.json --search --ranks 8 --budget 8GB --out searched.json"]="takes longer than a minute; tests/experiments/program/plan_search_test.cpp searches smaller models"
  ["./heddle plan experiments/max_classes.json --maximise head.classes --budget 32GB"]=$claimed
  ["./heddle plan experiments/memory_balance.json"]=$claimed
  ["./heddle plan experiments/memory_balance.json --maximise train.batch"]=$claimed
  ["./heddle plan experiments/memory_balance.json --set memory_budget=0"]=$claimed
  ["./heddle plan experiments/one_billion.json"]=$claimed
  ["./heddle plan experiments/quickstart.json --set device=cuda"]=$cuda
  ["./heddle reproduce --all --quick"]=$long
  ["./heddle reproduce quickstart"]=$long
  ["./heddle run faces.json --set mesh.dp=4 --set train.steps=12 --set train.save_every=4"]=$faces
  ["./heddle run faces.json --set mesh.dp=2 --set train.steps=12 --set train.save_every=4 --resume"]=$faces
  ["./heddle run experiments/balanced_by_time.json"]=$long
  ["./heddle run experiments/balanced_stages.json"]=$long
  ["./heddle run experiments/exact_or_sampled.json"]=$long
  ["./heddle run experiments/gpipe_vs_naive.json"]=$long
  ["./heddle run experiments/head_scaling.json"]=$long
  ["./heddle run experiments/lfw.json --set data_folder=DIR"]=$faces
  ["./heddle run experiments/lfw_head.json --set data_folder=DIR"]=$faces
  ["./heddle run experiments/margins.json"]=$long
  ["./heddle run experiments/memory_balance_measured.json"]=$claimed
  ["./heddle run experiments/orl_faces.json --set data.path=PATH/TO/orl_faces"]=$data
  ["./heddle run experiments/orl_faces.json --set data.path=PATH/TO/orl_faces --set model.weights=backbone.safetensors"]=$data
  ["./heddle run experiments/orl_faces_head.json --set data.path=PATH/TO/orl_faces --set train.save=false"]=$data
  ["./heddle run experiments/orl_faces_vit.json --set data.path=PATH/TO/orl_faces"]=$data
  ["./heddle run experiments/precision.json --set data.path=PATH/TO/orl_faces --set train.save=false"]=$data
  ["./heddle run experiments/quickstart.json"]=$step
  ["./heddle run experiments/quickstart.json --resume --set train.steps=60"]=$results
  ["./heddle run experiments/quickstart.json --set device=cuda --out results/cuda"]=$cuda
  ["./heddle run experiments/ten_million.json"]="$long; needs 21 GiB of memory"
  ["./heddle run experiments/saving.json"]=$long
  ["./heddle run experiments/torchgpipe_tables.json"]=$long
  ["./heddle run experiments/two_stages.json"]=$long
  ["./heddle setup cuda"]=$cuda
  ["cmake --install build/release --prefix PATH/TO/PREFIX"]="tests/packaging/install_test.sh installs"
  ["./heddle setup openmpi"]=$mpi
  ["./heddle test"]=$step
  ["./heddle test --cuda-on-host"]=$step
  ["mpirun -n 2 ./heddle bench collectives"]=$mpi
  ["mpirun -n 4 ./heddle run experiments/quickstart.json --out results/processes"]=$mpi
  ["mpirun -n 4 --oversubscribe ./heddle run experiments/quickstart.json --out results/processes"]=$mpi
  ["mpirun -n 4 ./heddle run experiments/quickstart.json --set device=cuda --out results/nccl"]=$mpi
  ["mpirun -n 4 ./heddle test"]=$mpi
  ["tests/gpu_check.sh"]="needs a GPU"
)

passed=0 failed=0
declare -A ran=() listed=() output_of=()
pass() { passed=$((passed + 1)); }
fail() {
  failed=$((failed + 1))
  printf 'FAILED: %s\n' "$*"
}

# ---- commands ------------------------------------------------------------------------------------------------------

is_claimed() {  # is_claimed COMMAND: whether a check of experiments/claims has it, and --quick changes nothing in it
  local check
  check=$(grep -hA 1 -F "\"command\": \"$1\"," experiments/claims/*.json) && [[ $check != *'"quick"'* ]]
}
run_command() {  # run_command PLACE COMMAND; leaves what it printed in $output_of
  if [[ ${apart[$2]-} ]]; then
    listed[$2]=1
    [[ ${apart[$2]} != "$claimed" ]] || is_claimed "${2#./heddle }" || fail "$1: no check of experiments/claims runs \`$2\` unchanged with --quick"
    return
  fi
  [[ ${ran[$2]-} ]] && return
  ran[$2]=1
  local code
  output_of[$2]=$(cd "$work" && NO_COLOR=1 timeout 300 bash -c "$2" 2>&1 </dev/null)
  code=$?
  if ((code == 0)) && [[ ${output_of[$2]} ]]; then
    pass
  else
    fail "$1: \`$2\` gave exit code $code; a long command belongs in the list of tests/docs_test.sh. It printed:"
    printf '%s\n' "${output_of[$2]}" | tail -n 5
  fi
}

compare_output() {  # compare_output PLACE COMMAND LINES: each begins a line of what the command printed, in this order
  [[ ${ran[$2]-} ]] || { fail "$1: the command before this output, \`$2\`, does not run here"; return; }
  local line got found
  exec {printed}<<<"${output_of[$2]}"
  while IFS= read -r line; do
    [[ ${line// /} ]] || continue
    found=''
    while IFS= read -r got <&"$printed"; do [[ $got == "$line"* ]] && found=1 && break; done
    if [[ ! $found ]]; then
      fail "$1: \`$2\` does not print, where it should: $line"
      break
    fi
  done <<<"$3"
  exec {printed}<&-
  [[ $found ]] && pass
}

read_commands() {  # read_commands DOCUMENT
  local line number=0 kind='' command='' last='' text=''
  while IFS= read -r line; do
    number=$((number + 1))
    if [[ $line == '```'* ]]; then
      [[ $kind == 'text output' ]] && compare_output "$1:$number" "$last" "$text"
      if [[ $kind ]]; then kind=''; else kind=${line#'```'} kind=${kind:-none}; fi
      command='' text=''
    elif [[ $kind == sh ]]; then
      line=${line#"${line%%[! ]*}"}
      [[ $line == '#'* ]] && continue
      if [[ $line == *\\ ]]; then
        command+=${line%\\}
      elif [[ $command$line == 'for '* && $line != done* ]]; then
        command+=$line$'\n'
      elif [[ $command$line ]]; then
        last=$command$line command=''
        run_command "$1:$number" "$last"
      fi
    elif [[ $kind == 'text output' ]]; then
      text+=$line$'\n'
    fi
  done <"$1"
  [[ $kind ]] && fail "$1: a block that begins with \`\`\` has no end"
}

# ---- links and names -----------------------------------------------------------------------------------------------

prose() { awk '/^```/ {inside = !inside; next} !inside && !/^    /' "$1"; }

anchors() {  # the anchors that GitHub gives to a document's headings
  awk '/^```/ {inside = !inside; next} !inside && /^#+ /' "$1" | sed -E 's/^#+ +//' | tr '[:upper:]' '[:lower:]' |
    sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}

check_links() {  # check_links DOCUMENT
  local target file anchor folder
  folder=$(dirname "$1")
  while IFS= read -r target; do
    case $target in
      https://*) continue ;;
      *:*) fail "$1: a link to $target"; continue ;;
    esac
    file=$folder/${target%%#*} anchor=''
    [[ $target == '#'* ]] && file=$1
    [[ $target == *'#'* ]] && anchor=${target#*#}
    if [[ ! -e $file ]]; then
      fail "$1: a link to $target, which does not exist"
    elif [[ $anchor ]] && ! anchors "$file" | grep -qxF -- "$anchor"; then
      fail "$1: a link to $target, which has no heading of that name"
    else
      pass
    fi
  done < <(prose "$1" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//')
}

# shellcheck disable=SC2016
check_files() {  # check_files DOCUMENT: names such as `experiments/quickstart.json`
  local name
  while IFS= read -r name; do
    if compgen -G "$name" >/dev/null; then pass; else fail "$1: \`$name\` does not exist"; fi
  done < <(prose "$1" | grep -oE '`(framework|parallel|layers|models|experiments|notebooks_export|packaging|python|examples|tests|docs)/[^` ]*`' |
    tr -d '`' | grep -vE "DATE|NAME|THEME" | sort -u)
}

for document in "${documents[@]}"; do
  [[ -e $document ]] || { fail "$document does not exist"; continue; }
  check_links "$document"
  check_files "$document"
  read_commands "$document"
done
for command in "${!apart[@]}"; do
  [[ ${listed[$command]-} ]] || fail "tests/docs_test.sh: no document has the command \`$command\` of its list"
done

for file in experiments/*.json; do
  [[ $file == *schema.json ]] && continue
  name=$(basename "$file" .json)
  if grep -sqwF "$name" experiments/README.md; then pass; else fail "experiments/README.md does not name $name"; fi
done

# The times of the table, such as `75 s` and `2.5 min`, are those of the claims, rounded.
while read -r name time unit; do
  claimed_seconds=$(grep -m 1 -oP '"seconds": \K[0-9]+' "experiments/claims/$name.json") || continue
  if awk -v time="$time" -v unit="$unit" -v claimed="$claimed_seconds" \
    'BEGIN {time *= unit == "min" ? 60 : 1; exit time < 0.95 * claimed || time > 1.1 * claimed}'; then
    pass
  else
    fail "experiments/README.md gives $name $time $unit, and experiments/claims/$name.json $claimed_seconds s"
  fi
done < <(sed -nE 's/^\| \[(\w+)\.json\].* \| ([0-9.]+) (s|min) \| .*/\1 \2 \3/p' experiments/README.md)

# Sources cite pages and conventions that exist.
search_sources() {
  grep -r --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh' "$@" framework parallel layers models \
    notebooks_export experiments tests
}
while IFS=: read -r file number page; do
  # A page of the repository, or a file below the folder of the source.
  if [[ -e $page ]] || compgen -G "${file%/*}/*/$page" >/dev/null; then pass; else fail "$file:$number cites $page, which does not exist"; fi
done < <(search_sources -noE '[A-Za-z_/]+\.md\b')
while IFS=: read -r file number citation; do
  rule=${citation#*convention } rule=${rule%%[!0-9]*}
  if [[ $citation == *docs/conventions.md* ]] && grep -q "^## $rule\. " docs/conventions.md; then
    pass
  else
    fail "$file:$number cites a convention without docs/conventions.md, or one that it does not have: $citation"
  fi
done < <(search_sources -nE 'convention [0-9]+')

lines=$(wc -l <README.md)
if ((lines <= 180)); then pass; else fail "README.md has $lines lines, more than 180"; fi

echo "$passed passed, $failed failed"
((failed == 0))
