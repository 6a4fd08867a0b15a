#!/usr/bin/env bash
# The archive of tests/gpu_check.sh --pack in a root of its own, which has a shell, the C and C++ libraries and CUDA's,
# and no GPU: the programs start there, and what is missing is said. Needs nvcc, cuDNN and user namespaces.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
work=$(mktemp -d)
[[ -f build/gpu.tar.gz ]] && mv build/gpu.tar.gz "$work/kept"
trap 'rm -f build/gpu.tar.gz; [[ -f $work/kept ]] && mv "$work/kept" build/gpu.tar.gz; rm -rf "$work"' EXIT
# shellcheck source=tests/support/checks.sh
source tests/support/checks.sh
root=$work/root cuda=/usr/local/cuda

tests/gpu_check.sh --pack >"$work/pack" 2>&1 || { tail -n 5 "$work/pack"; exit 1; }

mkdir -p "$root"/{bin,lib,lib64,usr,tmp,proc,dev,etc,heddle/build} "$root$cuda"
ln -s ../bin ../lib ../lib64 "$root/usr"
copy() {  # copy FILE..: with the libraries that they are linked with
  local file library
  for file in "$@"; do
    cp -L "$file" "$root/bin/"
    for library in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do
      mkdir -p "$root$(dirname "$library")"
      cp -Ln "$library" "$root$library"
    done
  done
}
for tool in bash env cat cut date dirname du grep gzip head iconv id ldd ls mkdir mktemp paste realpath rm sed sh \
  sort tail tar timeout tr uniq wc awk; do
  copy "$(command -v "$tool")"
done
for library in libstdc++.so.6 libgcc_s.so.1 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0; do
  cp -L "/lib/x86_64-linux-gnu/$library" "$root/lib/x86_64-linux-gnu/"
done
cp build/gpu.tar.gz "$root/heddle/build/"
mkdir -p "$root/heddle/experiments"
cp -r experiments/*.json "$root/heddle/experiments/"
cp -r --parents tests/gpu_check.sh "$root/heddle/"

# The mount and the new root end with the command.
inside() {  # inside COMMAND [with_cuda]; leaves what it printed in $said, and $code
  local mount=true
  [[ ${2-} ]] && mount="mount --bind $cuda '$root$cuda'"
  said=$(unshare --map-root-user --mount bash -c "$mount && mount -t proc proc '$root/proc' 2>/dev/null
    exec /usr/sbin/chroot '$root' /bin/env -i PATH=/bin HOME=/tmp bash -c 'cd /heddle && $1'" 2>&1)
  code=$?
}

inside "tests/gpu_check.sh"
is "without CUDA the check ends with 2" 2 "$code"
has "it names the libraries that are missing" "gpu_check: these libraries are not here: " "$said"
has "cuDNN among them" "libcudnn" "$said"
# As CUDA's packages install it.
cp -L "$(ldd build/release/experiments/heddle | awk '/libcudnn/ {print $3}')" "$root/lib/x86_64-linux-gnu/"
inside "tests/gpu_check.sh" with_cuda
is "without a GPU the check ends with 2" 2 "$code"
has "it says that there is none" "gpu_check: there is no NVIDIA GPU here, or no driver with its nvidia-smi" "$said"

libraries="LD_LIBRARY_PATH=/heddle/build/gpu/lib:$cuda/lib64"
inside "$libraries build/gpu/heddle --version" with_cuda
is "the program starts" 0 "$code"
has "with the device cuda" "(cpu, cuda " "$said"
inside "$libraries build/gpu/heddle run experiments/quickstart.json --out /tmp/out --set train.steps=1" with_cuda
is "it trains on the CPU" 0 "$code"
inside "$libraries build/gpu/heddle run experiments/quickstart.json --out /tmp/gpu --set device=cuda" with_cuda
is "on the device cuda it ends with 2" 2 "$code"
has "and says why" "heddle: device cuda: there is no NVIDIA GPU here" "$said"
inside "$libraries build/gpu/heddle_tests --source-file=*/framework/ops/matmul_test*" with_cuda
is "the tests start, and those of a product pass" 0 "$code"
[[ $said =~ test\ cases:\ +([0-9]+) ]]
is "there are some" yes "$( ((${BASH_REMATCH[1]:-0} > 0)) && echo yes)"
[[ $failed == 0 ]] || printf '%s\n' "$said" | tail -n 5
echo "$passed passed, $failed failed"
((failed == 0))
