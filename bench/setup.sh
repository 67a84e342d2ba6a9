#!/usr/bin/env bash
# Installs Isobar's dependencies and builds build/isobar. Running it again only does what is missing.
#
#   bench/setup.sh                 # packages, .venv-reports, configure, build the command
#   bench/setup.sh --tests         # also what tests/run.sh needs (clang-format, clang-tidy)
#   bench/setup.sh --no-build      # stop after the packages
#   source bench/setup.sh          # only the functions, as the other scripts do
#
# On Debian and its derivatives packages come from apt, as root or through sudo. On other systems (a cluster's login
# node) it lists the libraries that CMake looks for; once they are loaded, `--no-packages` skips to the build.

ISOBAR_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VL_CONVERT_VERSION=1.9.0.post1   # renders the reports' charts
HATCHLING_VERSION=1.33.0         # builds the Python wheel
CLIENT_PACKAGES=(pandas==2.3.3 mypy==1.18.2 pandas-stubs==2.3.2.250926)  # tests of the Python client
AXE_VERSION=0.1.0                # axe-core: accessibility rules for the browser test
# only with nvcc: headers of cuDNN's fused attention; cuobjdump and its dependencies
CUDA_EXTRAS=(nvidia-cudnn-frontend==1.32.0 nvidia-cuda-cuobjdump==13.5.37 nvidia-cuda-nvdisasm==13.5.37)

BUILD_PACKAGES=(  # ocl-icd-opencl-dev: required by Debian 12's CMake file of oneDNN
  g++ cmake ninja-build ccache pkg-config git python3 python3-venv
  libopenmpi-dev openmpi-bin libdnnl-dev ocl-icd-opencl-dev libhdf5-dev libnetcdf-dev zlib1g-dev libzip-dev
  libblosc-dev libzstd-dev libpcre2-dev libeccodes-dev libmetis-dev libpng-dev
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libssl-dev
  libceres-dev libeigen3-dev libsqlitecpp-dev libsqlite3-dev libbenchmark-dev libgtest-dev
)
TEST_PACKAGES=(lld strace clang-format clang-tidy libomp-dev iproute2 chromium slurm-wlm munge gfortran)

headline() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
say() { printf '   %s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

# duration SECONDS -> "1 min 05 s"
duration() {
  if (($1 >= 60)); then printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); else printf '%d s' "$1"; fi
}

# missing_packages NAME... prints those that dpkg lists as not installed
missing_packages() {
  local installed name
  installed="$(dpkg-query -W -f='${db:Status-Abbrev}${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p')" || true
  for name in "$@"; do
    grep -qxF -- "$name" <<<"$installed" || echo "$name"
  done
}

# install_packages NAME... through apt, or prints the command to type
install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "This system has no apt, so nothing was installed. Isobar needs (as modules or packages of your system):
  a C++20 compiler (GCC 12 or newer), CMake 3.25, Ninja, pkg-config, Python 3 with venv
  MPI, oneDNN, HDF5 (C), NetCDF (C), zlib, libzip, c-blosc, zstd, ecCodes (for GRIB, if wanted), METIS (for graphs cut by it, if wanted), libpng, yaml-cpp, nlohmann-json, CLI11, OpenSSL,
  Ceres, SQLiteCpp with SQLite 3, Google Benchmark, GoogleTest
Load them (so that CMake finds them; CMAKE_PREFIX_PATH helps), then run this script again with --no-packages.
Or build nothing here: bench/bundle.sh, on a Debian machine, makes one archive of the program and all of its libraries
but MPI, to be unpacked without root; bench/site/README.md has that, and recipes for Apptainer, Spack and conda."
  fi
  local missing sudo=()
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "packages: all $# are installed"
    return
  fi
  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
      sudo=(sudo)
    else
      die "${#missing[@]} packages are missing, and installing them needs root. Type (or ask who may):
  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}
then run this script again."
    fi
  fi
  say "packages: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -q || die "apt-get update failed (see above): is this machine online?"
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -qy --no-install-recommends -o Dpkg::Use-Pty=0 "${missing[@]}" ||
    die "apt-get could not install the packages (see above)."
}

# python_env DIR REQUIREMENT... makes a virtual environment with exactly these packages
python_env() {
  local dir="$ISOBAR_ROOT/$1"
  shift
  if [[ -x "$dir/bin/python" && "$(cat "$dir/.holds" 2>/dev/null)" == "$*" ]]; then
    say "${dir##*/}: has $*"
    return
  fi
  say "${dir##*/}: installing $*"
  rm -rf "$dir.new"
  python3 -I -m venv "$dir.new" && "$dir.new/bin/pip" install -q --disable-pip-version-check "$@" ||
    { rm -rf "$dir.new"; return 1; }
  # Its scripts name the folder that they were made in.
  grep -rlIF -- "$dir.new" "$dir.new/bin" "$dir.new/pyvenv.cfg" | xargs -rd '\n' sed -i "s|$dir\.new|$dir|g"
  echo "$*" >"$dir.new/.holds"
  swap_in "$dir"
}

# swap_in DIR puts DIR.new in the place of DIR, which stays until the new one is whole
swap_in() {
  rm -rf "$1.old"
  if [[ -e "$1" ]]; then mv -T "$1" "$1.old"; fi
  mv -T "$1.new" "$1" && rm -rf "$1.old"
}

# cuda_extras installs into .venv-cudnn what CUDA's Debian packages and trees lack: cuDNN's C++ frontend (headers), and
# the disassembler with which tests inspect kernels
cuda_extras() {
  local dir="$ISOBAR_ROOT/.venv-cudnn"
  if [[ "$(cat "$dir/.holds" 2>/dev/null)" == "${CUDA_EXTRAS[*]}" ]]; then
    say ".venv-cudnn: has ${CUDA_EXTRAS[*]}"
    return
  fi
  say ".venv-cudnn: installing ${CUDA_EXTRAS[*]}"
  rm -rf "$dir.new"
  "$ISOBAR_ROOT/.venv-reports/bin/pip" install -q --disable-pip-version-check --no-deps --target "$dir.new" "${CUDA_EXTRAS[@]}" ||
    { rm -rf "$dir.new"; return 1; }
  find "$dir.new/nvidia" -path '*/bin/*' -type f -exec chmod +x {} +  # pip --target may lose the mode
  echo "${CUDA_EXTRAS[*]}" >"$dir.new/.holds"
  swap_in "$dir"
}

# build_isobar DIR TARGETS [CMAKE_ARGS...] (targets: words of one string) configures once and builds, with progress. Files are
# compiled in batches (CMake's unity build), which takes half the time from nothing.
build_isobar() {
  local dir="$ISOBAR_ROOT/$1" generator=() targets
  read -r -a targets <<<"$2"
  shift 2
  if [[ ! -f "$dir/build.ninja" && ! -f "$dir/Makefile" ]]; then
    [[ -f "$dir/CMakeCache.txt" ]] || { command -v ninja >/dev/null && generator=(-G Ninja); }
    say "configuring ${dir##*/}"
    cmake -S "$ISOBAR_ROOT" -B "$dir" --log-level=NOTICE "${generator[@]}" -DCMAKE_BUILD_TYPE=Release \
      -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=64 "$@" || return 1
  fi
  NINJA_STATUS='[%f/%t, %e s] ' cmake --build "$dir" --target "${targets[@]}" --parallel "$(nproc)"
}

# mpich_cmake: CMake arguments, one a line, if MPICH is installed beside another MPI; else nothing
mpich_cmake() {
  local mpicc mpiexec
  mpicc="$(command -v mpicc.mpich)" && mpiexec="$(command -v mpiexec.mpich)" || return 0
  printf '%s\n' "-DMPI_C_COMPILER=$mpicc" "-DMPIEXEC_EXECUTABLE=$mpiexec"
}

# setup_isobar [--tests] [--no-build] [--no-packages]
setup_isobar() {
  local packages=("${BUILD_PACKAGES[@]}") build=1 install=1 tests=0 argument
  for argument in "$@"; do
    case "$argument" in
      --tests) packages+=("${TEST_PACKAGES[@]}") tests=1 ;;
      --no-build) build=0 ;;
      --no-packages) install=0 ;;
      *) die "setup.sh: unknown argument '$argument' (see the head of the script)" ;;
    esac
  done
  if ((install)); then install_packages "${packages[@]}"; fi
  local client="" axe=""  # made meanwhile
  if ((tests)); then
    python_env .venv-client "${CLIENT_PACKAGES[@]}" & client=$!
    python_env .venv-axe "axe-core-python==$AXE_VERSION" & axe=$!
  fi
  python_env .venv-reports "vl-convert-python==$VL_CONVERT_VERSION" ||
    say "WARNING: .venv-reports could not be made, so reports will lack rendered charts; run this again when online"
  if command -v nvcc >/dev/null || [[ -x /usr/local/cuda/bin/nvcc ]]; then
    cuda_extras || say "WARNING: no cuDNN frontend, so attention on GPUs would run in plain kernels; run this again when online"
  fi
  if ((tests)); then
    wait "$client" || say "WARNING: .venv-client could not be made, so the Python client's frames and types are not tested"
    wait "$axe" || say "WARNING: .venv-axe could not be made, so the report's page is not held to axe-core's rules"
  fi
  if ((build)); then
    build_isobar build isobar || die "The build failed (see above)."
    say "built build/isobar"
  fi
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  set -euo pipefail
  case "${1:-}" in
    -h | --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  esac
  cd "$ISOBAR_ROOT"
  started=$SECONDS
  headline "Setting up Isobar"
  setup_isobar "$@"
  say "done in $(duration $((SECONDS - started)))"
fi
