#!/usr/bin/env bash
# Packs Isobar into one archive for machines where nothing can be installed: the program and every library it needs,
# except those that belong to the site: MPI, glibc and the GPU driver's.
#
#   bench/bundle.sh                # build/bundle/isobar-VERSION-openmpi.tar.gz; -mpich where libmpich-dev is
#   bench/bundle.sh mpich          # one of them
#   source bench/bundle.sh         # only the functions, as bench/wheel.sh does
#
# It runs from any folder if glibc is at least as new as the archive states. tests/bundle.sh tests it as an ordinary
# user in a bare chroot of another release.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ISOBAR_ROOT"

VERSION="$(sed -n 's/^project(isobar VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)"
OUT="$ISOBAR_ROOT/build/bundle"

# needed FILE: libraries that the dynamic linker loads for it
needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

# Libraries of the site: MPI, glibc and its parts, and the GPU driver's
site_owned() {
  case "$1" in
    libmpi.so.* | libmpich.so.*) ;;
    ld-linux* | libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.*) ;;
    libresolv.so.* | libutil.so.*) ;;
    libcuda.so.* | libnvidia-*) ;;
    *) return 1 ;;
  esac
}

# gather PROGRAM DIR: copies its libraries and theirs recursively, except those that only MPI needs
gather() {
  local program="$1" dir="$2" name path queue seen=" "
  mapfile -t queue < <(needed "$program")
  while ((${#queue[@]})); do
    name="${queue[0]}" queue=("${queue[@]:1}")
    if [[ "$seen" == *" $name "* ]] || site_owned "$name"; then continue; fi
    seen+="$name "
    path="$(ldd "$program" | awk -v name="$name" '$1 == name { print $3 }')"
    [[ -n "$path" ]] || die "bundle.sh: $name, which $program needs, is not on this machine"
    install -m 755 "$(readlink -f "$path")" "$dir/lib/$name"
    patchelf --set-rpath "\$ORIGIN" "$dir/lib/$name"
    licence_of "$path" "$dir"
    mapfile -t -O "${#queue[@]}" queue < <(needed "$dir/lib/$name")
  done
}

# licence_of LIBRARY DIR: adds the library's licence
licence_of() {
  local package  # by file name: /lib is a link to /usr/lib, and packages list either path
  package="$(dpkg-query -S "*/x86_64-linux-gnu/*$(basename "$(readlink -f "$1")")" 2>/dev/null)" ||
    die "bundle.sh: $1 belongs to no package, so nobody knows under which conditions it may be passed on"
  package="${package%%:*}"
  install -Dm 644 "/usr/share/doc/$package/copyright" "$2/licences/$package"
}

# least_glibc DIR: the newest version of glibc's symbols that its files require
least_glibc() {
  find "$1/bin" "$1/lib" -type f -exec objdump -T {} + 2>/dev/null |
    grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1
}

# bundle MPI BUILD_DIR: makes the archive of a build
bundle() {
  local mpi="$1" build="$2" name="isobar-$VERSION-$1" dir
  dir="$OUT/$name"
  rm -rf "$dir" "$dir.tar.gz"
  mkdir -p "$dir"/{bin,lib,licences,reports/scripts}
  install -m 755 "$build/isobar" "$dir/bin/isobar"
  strip --strip-debug "$dir/bin/isobar"
  gather "$build/isobar" "$dir"
  patchelf --set-rpath "\$ORIGIN/../lib" "$dir/bin/isobar"
  if [[ "$mpi" == mpich ]]; then name_mpich "$dir"; fi
  git ls-files configs reports/figures/specs | cpio -pdm --quiet "$dir"
  install -m 644 reports/render.py "$dir/reports/"
  install -m 644 reports/scripts/*.js "$dir/reports/scripts/"
  install -m 755 bench/site/check.sh "$dir/check.sh"
  {
    echo "mpi=$mpi"
    echo "glibc=$(least_glibc "$dir")"
    echo "version=$VERSION $(git describe --always --dirty)"
    echo "built_on=$(. /etc/os-release && echo "$PRETTY_NAME")"
  } >"$dir/BUILT"
  sed "s/@NAME@/$name/g" bench/site/README.txt >"$dir/README"
  tar -C "$OUT" --owner=0 --group=0 -czf "$dir.tar.gz" "$name"
  say "$dir.tar.gz: $(du -h "$dir.tar.gz" | cut -f1), $(ls "$dir/lib" | wc -l) libraries, $(least_glibc "$dir") or newer"
}

# name_mpich DIR: MPICH derivatives share an ABI, but Debian names the library libmpich.so.12 and others libmpi.so.12.
# The program links to the latter; lib/debian has a libmpi.so.12 that only depends on libmpich.so.12.
name_mpich() {
  patchelf --replace-needed libmpich.so.12 libmpi.so.12 "$1/bin/isobar"
  mkdir "$1/lib/debian"
  gcc -shared -o "$1/lib/debian/libmpi.so.12" -Wl,-soname,libmpi.so.12 -Wl,--no-as-needed \
    "$(ldd build-mpich/isobar | awk '$1 == "libmpich.so.12" { print $3 }')" -x c /dev/null
}

if [[ "${BASH_SOURCE[0]}" == "$0" ]]; then
  families=("$@")
  if ((${#families[@]} == 0)); then
    families=(openmpi)
    if [[ -n "$(mpich_cmake)" ]]; then families+=(mpich); fi
  fi
  headline "Bundle of Isobar $VERSION: ${families[*]}"
  install_packages patchelf binutils cpio
  for family in "${families[@]}"; do
    case "$family" in
      openmpi) build_isobar build isobar || die "The build failed (see above)." ; bundle openmpi build ;;
      mpich)
        mapfile -t mpich < <(mpich_cmake)
        ((${#mpich[@]})) || die "bundle.sh: there is no MPICH here -> apt-get install libmpich-dev mpich"
        build_isobar build-mpich isobar "${mpich[@]}" || die "The build failed (see above)."
        bundle mpich build-mpich
        ;;
      *) die "bundle.sh: '$family' is neither openmpi nor mpich (see the head of the script)" ;;
    esac
  done
fi
