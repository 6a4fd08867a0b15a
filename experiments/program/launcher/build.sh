# What the launcher does when something is missing or changed: it installs packages, configures and builds. ./heddle reads
# this file only then; the variables and functions that are not defined here are its own.
# shellcheck shell=bash disable=SC2034,SC2154

# ---- packages ------------------------------------------------------------------------------------------------------

# Debian package:the command or header that shows that it is there (from whatever source).
required=(g++:g++ cmake:cmake ninja-build:ninja libdnnl-dev:dnnl.hpp libeigen3-dev:eigen3/Eigen/Core
  nlohmann-json3-dev:nlohmann/json.hpp libcli11-dev:CLI/CLI.hpp doctest-dev:doctest/doctest.h libfmt-dev:fmt/core.h
  libturbojpeg0-dev:turbojpeg.h libjpeg-dev:jpeglib.h libstb-dev:stb/stb_image.h
  libprotobuf-dev:google/protobuf/message.h libonnx-dev:onnx/onnx_pb.h zlib1g-dev:zlib.h
  libssl-dev:openssl/hmac.h)
faster=(ccache:ccache mold:mold)  # installed along with the others, never asked for on their own
page=(jupyter-nbconvert python3-ipykernel python3-pandas python3-matplotlib)  # of `heddle notebook`

missing() {  # prints the packages of "$@" that are not there
  local entry directory directories
  IFS=: read -ra directories <<<"${CPATH-}:${CPLUS_INCLUDE_PATH-}:${CMAKE_PREFIX_PATH:+$CMAKE_PREFIX_PATH/include}"
  for entry; do
    [[ $entry == *.h* || $entry == */* ]] || { command -v "${entry#*:}" >/dev/null || echo "${entry%%:*}"; continue; }
    for directory in /usr/include /usr/local/include "${directories[@]}"; do
      [[ $directory && -e $directory/${entry#*:} ]] && continue 2
    done
    echo "${entry%%:*}"
  done
}

install_packages() {
  [[ ${HEDDLE_SKIP_PACKAGES-} ]] && return
  local lacking
  [[ ${mpi-} ]] && ! has_mpi "$mpi" && required+=("lib$mpi-dev:mpicxx.$mpi")
  mapfile -t lacking < <(missing "${required[@]}")
  ((${#lacking[@]})) || return 0
  mapfile -t lacking < <(missing "${required[@]}" "${faster[@]}")
  apt_install "${lacking[@]}"
  mapfile -t lacking < <(missing "${required[@]}")
  ((${#lacking[@]} == 0)) || die "still missing after apt-get: ${lacking[*]}"
}

apt_install() {
  local lacking=("$@") as_root=()
  say "these Debian packages are missing: ${lacking[*]}"
  if ! command -v apt-get >/dev/null; then
    say "there is no apt-get here to install them. Install them by other means (the names are Debian 12's),"
    say "then call ./heddle again. Where they lie in an unusual place, set CMAKE_PREFIX_PATH to it and"
    die "HEDDLE_SKIP_PACKAGES=1, so that CMake looks for them."
  fi
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "installing them needs root and there is no sudo. As root: apt-get install ${lacking[*]}; then call again."
    as_root=(sudo)
    [[ -t 0 ]] || as_root=(sudo -n)
  fi
  say "installing them now with apt-get (log: $log)"
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
  # A failed update need not matter: the existing lists may suffice.
  logged "${apt[@]}" update
  logged "${apt[@]}" install --no-install-recommends "${lacking[@]}" ||
    { log_end; die "apt-get could not install them. Once it can, call ./heddle again."; }
}

# ---- commands that are logged ---------------------------------------------------------------------------------

# Runs a command with its output in the log, and shows how far ninja is.
logged() {
  local code sink
  exec {sink}> >(
    trap '' INT  # the last lines matter most when the user interrupts
    follow
  )
  local reader=$!
  supervise "$@" >&"$sink" 2>&1 </dev/null
  code=$?
  exec {sink}>&-
  wait "$reader"
  ((code > 128)) && exit "$code"  # interrupted
  return "$code"
}

# Copies its input to the log. Ninja's lines "[done/all] ..." become a progress line: on a terminal one that is rewritten,
# elsewhere a new one every 15 seconds.
follow() {
  local line whole='' state before='' after=$'\n' progress='' begun=$SECONDS shown=$SECONDS
  [[ -t 2 ]] && before=$'\r\e[K' after=''
  while :; do
    IFS= read -r -t 1 line
    state=$?
    whole+=$line  # what came before a timeout is the beginning of the line
    ((state > 0 && state <= 128)) && break
    if ((state == 0)); then
      printf '%s\n' "$whole" >>"$log"
      [[ $whole =~ ^\[([0-9]+)/([0-9]+)\] ]] && progress="${BASH_REMATCH[1]} / ${BASH_REMATCH[2]}"
      whole=''
    fi
    [[ $progress ]] || continue
    [[ $before ]] || ((SECONDS - shown >= 15)) || continue
    shown=$SECONDS
    printf '%sheddle: building: %s, %d:%02d%s' "$before" "$progress" $(((SECONDS - begun) / 60)) \
      $(((SECONDS - begun) % 60)) "$after" >&2
  done
  [[ $whole ]] && printf '%s\n' "$whole" >>"$log"
  [[ $progress ]] && printf '%s' "$before" >&2
}

log_end() {  # shows what went wrong: the first failed command where there is one, else the last lines
  if grep -q '^FAILED:' "$log"; then sed -n '/^FAILED:/,$p' "$log" | head -n 60 >&2; else tail -n 40 "$log" >&2; fi
}

# ---- build ---------------------------------------------------------------------------------------------------------

configure() {
  local options=(-S "$root" --preset "$preset" -B "$build") lacks
  if grep -sqxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
    [[ -e $build/build.ninja && ! $root/CMakePresets.json -nt $build/build.ninja ]] && ! lacks_cuda &&
      { [[ ! ${mpi-} ]] || grep -q "heddle_$mpi" "$build/build.ninja"; } && return
  else
    options+=(--fresh)  # nothing there yet, or the folder was moved or copied
  fi
  { [[ $cuda ]] || cached 'HEDDLE_HAS_CUDA:INTERNAL=ON'; } && options+=(-DHEDDLE_CUDA_WANTED=ON)
  lacks_cuda && rm -f "$build"/.built-*  # nothing that was built has it
  say "configuring in $build"
  logged cmake "${options[@]}" || return
  if [[ $cuda == required ]] && lacks_cuda; then
    lacks=$(sed -n 's/^HEDDLE_CUDA_LACKS:INTERNAL=//p' "$build/CMakeCache.txt")
    die "the device cuda cannot be built here: $lacks"
  fi
}

compile() {
  local jobs memory
  jobs=$(nproc)
  memory=$(awk '/^MemAvailable/ {print int($2 / 1900000) + 1}' /proc/meminfo)  # the largest files take 1.9 GB
  ((jobs > memory)) && jobs=$memory
  say "building $1 (log: $log)"
  export CCACHE_BASEDIR=$root  # so that clones share what they compiled
  logged env NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$jobs" "$1"
}
