#!/usr/bin/env bash
# Everything that needs an NVIDIA GPU, on a machine with one, in under 10 minutes; prints one short table at the end.
#
#   tests/gpu.sh                           # with build-cuda/, which it builds where the packages are and it is missing
#   tests/gpu.sh --pack bundle.tar.xz      # elsewhere: the build and all it needs beside the driver, in one file …
#   tests/gpu.sh --bundle bundle.tar.xz    # … which runs on a bare machine (same kind of processor, glibc as new)
#   tests/gpu.sh steps ranks               # chosen parts (in this order: smoke nets steps language predict configurations ranks
#                                          # trace attention peers sanitizer)
#   tests/gpu.sh --rehearse                # the same script with tiny nets on emulated GPUs: tests this script, nothing else
#   tests/gpu.sh --dry-run                 # says what would run, how long, with what, and what is missing; runs nothing
#
# Options: --build DIR (build-cuda), --minutes N (9.5), --out DIR ($OUT, else bench/results), --python EXE (with torch).
# Exit codes: 0 all parts that could run passed, 1 a part failed (--dry-run: a program or library is missing), 2 bad
# arguments, 77 no device. The table and the JSON say what was skipped and why. Several ranks on one GPU communicate
# over sockets, a correctness mode that is labelled as such. The most valuable parts come first. Lines, JSON and all output
# are written as they come, so an interrupted run has reported what it saw. Nothing is installed, and the GPU's settings
# are left alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "tests/gpu.sh: $*" >&2; exit 2; }
build=build-cuda bundle='' pack='' python=${PYTHON:-python3} pass=()
while (($#)); do
  case "$1" in
    --build) build="${2:?--build needs a folder}"; shift ;;
    --bundle) bundle="${2:?--bundle needs a file}"; shift ;;
    --pack) pack="${2:?--pack needs a file}"; shift ;;
    --python) python="${2:?--python needs a program}"; shift ;;
    --minutes | --out) pass+=("$1" "${2:?$1 needs a value}"); shift ;;
    --rehearse | --dry-run) pass+=("$1") ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    smoke | nets | steps | language | predict | configurations | ranks | trace | attention | peers | sanitizer) pass+=("$1") ;;
    *) fail "unknown argument '$1' (see --help)" ;;
  esac
  shift
done

# Packs what a bare machine lacks: our programs, the libraries they link to (except glibc), and Open MPI's launcher with
# its plugins.
make_bundle() {
  local file="$1" work mca help
  work="$(mktemp -d)"
  trap 'rm -rf "$work"' RETURN
  mkdir -p "$work/bin" "$work/lib"
  cp -r configs "$work/configs"  # read by the tests, as from a checkout
  cp "$build/isobar" "$build/gpu_ceiling" "$build/gpu_attention" "$build/test_cuda" "$build/test_nccl" "$work/bin/"
  find "$build" -name 'libnvtx_probe.so' -exec cp {} "$work/lib/" \;
  strip "$work"/bin/*
  cp -L "$(command -v mpiexec)" "$work/bin/mpiexec"
  cp -L "$(command -v orted)" "$work/bin/orted"
  mca="$(ompi_info --parsable --path pkglibdir | cut -d: -f3)"
  help="$(ompi_info --parsable --path pkgdatadir | cut -d: -f3)"
  cp -rL "$mca" "$work/lib/openmpi"
  mkdir -p "$work/share"
  cp -rL "$help" "$work/share/openmpi"
  local pmix
  for pmix in /usr/lib/*/pmix2/lib/pmix; do if [[ -d $pmix ]]; then cp -rL "$pmix" "$work/lib/pmix"; fi; done
  # Plugins for other networks and schedulers are left out, because they depend on further libraries.
  find "$work/lib/openmpi" -name '*.so' | grep -E '_(psm2?|ofi|ucx|openib|ugni|portals4|tm|slurm|alps|lsf|usnic|mxm|fca|hcoll|cuda|adio|romio[0-9]*|oob_ud|pvfs2|lustre)\.so$' | xargs -r rm
  local object
  find "$work/bin" "$work/lib" -type f | while read -r object; do ldd "$object" 2>/dev/null || true; done |
    awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|libpthread|librt|libresolv|libutil|ld-linux[^/]*)\.so' | grep -v "^$work" |
    while read -r object; do cp -nL "$object" "$work/lib/"; done
  # PMIx loads its library by name.
  for object in /usr/lib/*/libpmix.so.2 /usr/lib/*/pmix2/lib/libpmix.so.2; do if [[ -e $object ]]; then cp -nL "$object" "$work/lib/"; fi; done
  git describe --always --dirty 2>/dev/null >"$work/commit" || true
  mkdir -p "$(dirname "$file")"
  XZ_OPT="-9 -T0" tar -C "$work" -cJf "$file" .
  echo "$file: $(du -h --apparent-size "$file" | cut -f1), $(find "$work/lib" -name '*.so*' | wc -l) libraries; run: tests/gpu.sh --bundle $file"
}

if [[ -n "$pack" ]]; then
  for program in isobar gpu_ceiling gpu_attention test_cuda test_nccl; do [[ -x $build/$program ]] || fail "$build/$program is missing: build it first (cmake --preset cuda)"; done
  make_bundle "$pack"
  exit
fi

if [[ -n "$bundle" ]]; then
  [[ -f $bundle ]] || fail "there is no $bundle"
  unpacked="$(mktemp -d "${TMPDIR:-/tmp}/isobar-bundle-XXXXXX")"
  trap 'rm -rf "$unpacked"' EXIT
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle" "$unpacked"
  "$python" tests/gpu/run.py --bundle "$unpacked" "${pass[@]}"
else
  if [[ ! -x $build/isobar && " ${pass[*]} " != *" --dry-run "* ]] && command -v nvidia-smi >/dev/null; then
    cmake --preset cuda -B "$build" >&2 || fail "there is no $build/isobar, and it cannot be configured here: carry a bundle (--pack)"
    cmake --build "$build" --target isobar gpu_ceiling gpu_attention test_cuda test_nccl >&2
  fi
  "$python" tests/gpu/run.py --build "$build" "${pass[@]}"
fi
