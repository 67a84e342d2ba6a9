#!/usr/bin/env bash
# Tests the bundle in a bare chroot of another Debian, as an ordinary user with only that release's MPI installed: data,
# calibration, the quickstart's sweep, fit and report.
#
#   tests/bundle.sh openmpi [RELEASE]     # trixie where none is named; or mpich. As root, with debootstrap
#
# The bundle must exist (bench/bundle.sh). Chroots are in /var/tmp/isobar-chroot-RELEASE-MPI and are reused.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../bench/setup.sh"
cd "$ISOBAR_ROOT"

MPI="${1:?tests/bundle.sh: say openmpi or mpich}"
RELEASE="${2:-trixie}"
ROOT="/var/tmp/isobar-chroot-$RELEASE-$MPI"
case "$MPI" in
  openmpi) PACKAGE=openmpi-bin OTHER=mpich ;;
  mpich) PACKAGE=mpich OTHER=openmpi ;;
  *) die "tests/bundle.sh: '$MPI' is neither openmpi nor mpich" ;;
esac
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "SKIPPED: needs root and debootstrap"
  exit 0
fi
ARCHIVE="$(ls -t build/bundle/isobar-*-"$MPI".tar.gz 2>/dev/null | head -1)"
[[ -n "$ARCHIVE" ]] || die "tests/bundle.sh: there is no bundle of $MPI -> run bench/bundle.sh $MPI"
NAME="$(basename "$ARCHIVE" .tar.gz)"

mounted() { grep -qs " $1 " /proc/mounts; }
leave() {
  local place
  for place in "$ROOT/dev/shm" "$ROOT/sys" "$ROOT/proc"; do
    if mounted "$place"; then umount "$place"; fi
  done
}
trap leave EXIT

inside() { chroot "$ROOT" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C "$@"; }
# as_user COMMAND: runs it as an ordinary user in their folder there
as_user() {
  chroot --userspec=1000:1000 "$ROOT" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home/user LC_ALL=C \
    OMP_WAIT_POLICY=passive /bin/bash -c "set -eo pipefail; cd /home/user; $1"
}
passed=0
check() {
  passed=$((passed + 1))
  say "$1"
}
fails() { die "   FAILED: $1"; }

headline "Bundle of $MPI on $RELEASE"
if [[ ! -f "$ROOT/.ready" ]]; then
  rm -rf --one-file-system "$ROOT"
  debootstrap --variant=minbase "$RELEASE" "$ROOT" >"$ROOT.log" 2>&1 ||
    die "debootstrap $RELEASE failed: see $ROOT.log"
  mount -t proc proc "$ROOT/proc"
  inside DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$PACKAGE" \
    >>"$ROOT.log" 2>&1 || die "$PACKAGE could not be installed there: see $ROOT.log"
  inside useradd -m -u 1000 user
  touch "$ROOT/.ready"
fi
mounted "$ROOT/proc" || mount -t proc proc "$ROOT/proc"
mounted "$ROOT/sys" || mount -t sysfs -o ro sysfs "$ROOT/sys"
mounted "$ROOT/dev/shm" || mount -t tmpfs tmpfs "$ROOT/dev/shm"
release="$(inside sh -c '. /etc/os-release; echo "$PRETTY_NAME"')"
say "$release, $(inside getconf GNU_LIBC_VERSION), $(inside mpiexec --version | head -2 | tr -s '\n ' ' ')"

rm -rf "$ROOT/home/user/"*
cp "$ARCHIVE" "$ROOT/home/user/"
chown 1000:1000 "$ROOT/home/user/$NAME.tar.gz"
unpacked="$(mktemp -d)"
tar -C "$unpacked" -xf "$ARCHIVE"
python3 tests/cli/binaries.py "$unpacked" || fails "libraries are taken from the working directory"
rm -rf "$unpacked"
check "no binary takes libraries from the working directory"
as_user "tar xf $NAME.tar.gz && mv $NAME elsewhere && elsewhere/check.sh" || fails "check.sh"
check "it says that it runs here, from a folder of another name"
as_user "elsewhere/bin/isobar doctor" || fails "isobar doctor"
check "the doctor finds all that is required"
as_user "cd /tmp && ~/elsewhere/bin/isobar search ~/elsewhere/configs/models/llama3-8b.yaml \
  --machine perlmutter --gpus 16 >/dev/null" || fails "--machine perlmutter"
check "a machine is found by its name"

# The quickstart's commands, with files of the bundle
as_user "isobar() { elsewhere/bin/isobar \"\$@\"; }
  isobar data make data/demo --channels 4 --height 64 --width 128 --train-years 2 --valid-years 1 \
    --samples-per-year 200
  isobar calibrate -o machine.yaml
  isobar sweep elsewhere/configs/sweeps/demo.yaml --results results
  isobar fit results --machine machine.yaml --holdout 0.5 --splits 10 --statistic p10 -o fitted.yaml
  isobar report results --machine fitted.yaml -o report" || fails "the quickstart's commands"
ended="$(grep -l '"class": *"ok"' "$ROOT"/home/user/results/trials/*/status.json | wc -l)"
trials="$(ls "$ROOT/home/user/results/trials" | wc -l)"  # 36, and repeats of contended trials
((trials >= 36 && ended == trials)) || fails "$ended of $trials trials ended well"
[[ -s "$ROOT/home/user/report/index.html" ]] || fails "there is no report"
[[ -s "$ROOT/home/user/fitted.yaml" ]] || fails "nothing was fitted"
check "$trials trials of the quickstart's sweep, its fit and its report"

# The bundle for the other MPI family must explain the mismatch
OTHERS="$(ls -t build/bundle/isobar-*-"$OTHER".tar.gz 2>/dev/null | head -1)"
if [[ -n "$OTHERS" ]]; then
  rm -rf "$ROOT/home/user/other" && mkdir "$ROOT/home/user/other"
  tar -C "$ROOT/home/user/other" -xf "$OTHERS" --strip-components=1 && chown -R 1000:1000 "$ROOT/home/user/other"
  said="$(as_user "other/check.sh 2>&1")" && fails "check.sh took the bundle of $OTHER where $MPI is: $said"
  said="$(tail -1 <<<"$said")"
  [[ "$said" == *"take the bundle of $MPI"* ]] || fails "check.sh does not say which bundle to take: $said"
  check "the bundle of $OTHER is refused: $said"
fi
echo "$passed checks passed: $NAME on $RELEASE"
