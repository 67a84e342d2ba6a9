#!/usr/bin/env bash
# Makes a Python wheel that holds the program, for machines where only pip is at hand: predict, plan, search, sweep of one
# rank and report run without MPI.
#
#   bench/wheel.sh                 # build/wheel/isobar-VERSION-py3-none-manylinux_2_28_x86_64.whl
#   bench/wheel.sh BUILD_DIR       # of the program that is there already
#
# The program needs the glibc of this machine, or a newer one; where that is older, the wheel's own is used
# (bench/site/launcher.sh). Several ranks need an Open MPI 4 in LD_LIBRARY_PATH. tests/python/wheel_test.py installs it
# into a fresh environment.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/bundle.sh"

WHEEL_OUT="$ISOBAR_ROOT/build/wheel"
WHEEL_TAG="py3-none-manylinux_2_28_$(uname -m)"  # older ones have no Python that pip serves

# fill DIR PROGRAM: the program, its libraries and what it reads, in the folder of the package
fill() {
  local dir="$1" program="$2"
  mkdir -p "$dir"/{bin,lib,licences,reports/scripts}
  install -m 755 "$program" "$dir/bin/isobar-bin"
  strip --strip-debug "$dir/bin/isobar-bin"
  gather "$program" "$dir"
  "$ISOBAR_ROOT/bench/site/no_mpi.sh" "$program" "$dir/lib/libmpi.so.40"
  patchelf --set-rpath "\$ORIGIN/../lib" "$dir/bin/isobar-bin"
  local glibc
  glibc="$(least_glibc "$dir")"
  sed "s/@GLIBC@/${glibc#GLIBC_2.}/" bench/site/launcher.sh >"$dir/bin/isobar"
  chmod 755 "$dir/bin/isobar"
  carry_glibc "$dir"
  git ls-files configs reports/figures/specs | cpio -pdm --quiet "$dir"
  install -m 644 reports/render.py "$dir/reports/"
  install -m 644 reports/scripts/*.js "$dir/reports/scripts/"
}

# carry_glibc DIR: this machine's glibc, for machines with an older one
carry_glibc() {
  local name
  mkdir "$1/lib/glibc"
  for name in ld-linux-x86-64.so.2 libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1; do
    install -m 755 "/lib/x86_64-linux-gnu/$name" "$1/lib/glibc/$name"
  done
  install -m 644 /usr/share/doc/libc6/copyright "$1/licences/libc6"
}

make_wheel() {
  local program="$1" stage="$WHEEL_OUT/stage"
  rm -rf "$WHEEL_OUT" && mkdir -p "$stage"
  git ls-files bench/python | cpio -pdm --quiet "$stage"
  fill "$stage/bench/python/isobar" "$program"
  (cd "$stage/bench/python" && ISOBAR_WHEEL_TAG="$WHEEL_TAG" \
    "$ISOBAR_ROOT/.venv-wheel/bin/python" -m hatchling build -t wheel -d "$WHEEL_OUT")
  rm -rf "$stage"
  say "$(ls "$WHEEL_OUT"/*.whl): $(du -h "$WHEEL_OUT"/*.whl | cut -f1)"
}

headline "Wheel of Isobar $VERSION"
install_packages patchelf binutils cpio
python_env .venv-wheel "hatchling==$HATCHLING_VERSION" || die "wheel.sh: hatchling could not be had from PyPI"
if (($# == 0)); then
  build_isobar build isobar || die "The build failed (see above)."
  set -- build
fi
[[ -x "$1/isobar" ]] || die "wheel.sh: $1/isobar is not there -> give a folder that holds the built program"
needed "$1/isobar" | grep -qx libmpi.so.40 || die "wheel.sh: $1/isobar is not of Open MPI 4 -> give a build that is"
make_wheel "$1/isobar"
