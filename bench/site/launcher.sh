#!/bin/sh
# Starts the program of a wheel: by the machine's glibc where that is new enough, else (or with ISOBAR_OWN_GLIBC=1) by the
# one in lib/glibc.
tree=$(PATH=/usr/bin:/bin readlink -f "$0")
tree=${tree%/bin/*}
has=$(PATH=/usr/bin:/bin getconf GNU_LIBC_VERSION 2>/dev/null)
has=${has#glibc 2.}
case "$has" in
  '' | *[!0-9]*) has=0 ;;
esac
if [ "$has" -ge @GLIBC@ ] && [ -z "$ISOBAR_OWN_GLIBC" ]; then exec "$tree/bin/isobar-bin" "$@"; fi
# Not exported: other programs that this one starts have the machine's.
exec "$tree/lib/glibc/ld-linux-x86-64.so.2" --library-path "$tree/lib/glibc${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
  "$tree/bin/isobar-bin" "$@"
