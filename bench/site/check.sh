#!/bin/sh
# Checks whether an Isobar bundle runs on this machine, and adapts it to the machine's libraries. Run it in
# the unpacked bundle with the site's MPI loaded, and again when that changes; it changes only files of the
# bundle.
here="$(cd "$(dirname "$0")" && pwd)" || exit 1
fail() { echo "check.sh: $1 -> $2" >&2; exit 2; }
built() { sed -n "s/^$1=//p" "$here/BUILT"; }
older() { [ "$1" != "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -1)" = "$1" ]; }

# place NAME: path at which the linker finds a system library
place() {
  for folder in $(echo "$LD_LIBRARY_PATH" | tr : ' '); do
    if [ -e "$folder/$1" ]; then echo "$folder/$1"; return; fi
  done
  { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | sed -n "s,^[[:space:]]*$1 (.*x86-64.*) => ,,p" | head -1
}

wants="$(built glibc)"
has="$(getconf GNU_LIBC_VERSION 2>/dev/null)" || fail "this machine has no glibc" "build from source"
! older "${has#glibc }" "${wants#GLIBC_}" ||
  fail "this machine has $has, and the bundle needs ${wants#GLIBC_}" "build from source, or use a container"
[ -w "$here/lib" ] || fail "$here/lib cannot be written" "unpack the bundle in a folder of yours"

# A process loads one C++ library. MPI's may need a newer one than the bundle's, never an older one.
newest() { grep -ao 'GLIBCXX_3\.4\.[0-9]*' "$1" | sort -uV | tail -1; }
cxx="libstdc++.so.6 libgcc_s.so.1"
for name in $cxx; do
  if [ -e "$here/lib/older/$name" ]; then mv "$here/lib/older/$name" "$here/lib/$name"; fi
done
theirs="$(place libstdc++.so.6)"
if [ -n "$theirs" ] && older "$(newest "$here/lib/libstdc++.so.6")" "$(newest "$theirs")"; then
  mkdir -p "$here/lib/older"
  for name in $cxx; do mv "$here/lib/$name" "$here/lib/older/$name"; done
  echo "$theirs is newer than the bundle's, and takes its place"
fi

# MPICH derivatives share an ABI but not the file name: Debian's is libmpich.so.12.
rm -f "$here/lib/libmpi.so.12"
if [ "$(built mpi)" = mpich ] && [ -z "$(place libmpi.so.12)" ] && [ -n "$(place libmpich.so.12)" ]; then
  cp "$here/lib/debian/libmpi.so.12" "$here/lib/"
  echo "MPI is $(place libmpich.so.12)"
fi

missing="$(ldd "$here/bin/isobar" 2>&1 | grep 'not found')"
case "$missing" in
  "") ;;
  *libmpi.so.40*) fail "no Open MPI is here (libmpi.so.40)" "load its module, or take the bundle of mpich" ;;
  *libmpi.so.12*) fail "no MPICH or descendant of it is here (libmpi.so.12)" \
    "load its module (on a Cray cray-mpich-abi), or take the bundle of openmpi" ;;
  *) fail "libraries are missing: $missing" "load the modules that have them" ;;
esac
"$here/bin/isobar" --help >/dev/null || fail "the program does not start" "see above"
echo "isobar runs here: $here/bin/isobar doctor says more"
