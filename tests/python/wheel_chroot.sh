#!/usr/bin/env bash
# The wheel in a bare chroot of an older Debian, as an ordinary user: tests/python/wheel_chroot.sh [RELEASE]
#
# bullseye (glibc 2.31, Python 3.9) where none is named. As root, with debootstrap. The wheel must exist (bench/wheel.sh).
# Chroots are in /var/tmp/isobar-chroot-RELEASE-wheel and are reused.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../../bench/setup.sh"
cd "$ISOBAR_ROOT"

RELEASE="${1:-bullseye}"
ROOT="/var/tmp/isobar-chroot-$RELEASE-wheel"
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "SKIPPED: needs root and debootstrap"
  exit 0
fi
WHEEL="$(ls -t build/wheel/isobar-*.whl 2>/dev/null | head -1)"
[[ -n "$WHEEL" ]] || die "wheel_chroot.sh: there is no wheel -> run bench/wheel.sh"

leave() { if grep -qs " $ROOT/proc " /proc/mounts; then umount "$ROOT/proc"; fi; }
trap leave EXIT
as_user() {
  chroot --userspec=1000:1000 "$ROOT" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home/user LC_ALL=C.UTF-8 \
    /bin/bash -c "set -eo pipefail; cd /home/user; $1"
}

headline "The wheel on $RELEASE"
if [[ ! -f "$ROOT/.ready" ]]; then
  rm -rf --one-file-system "$ROOT"
  debootstrap --variant=minbase --include=python3-venv,python3-pip "$RELEASE" "$ROOT" >"$ROOT.log" 2>&1 ||
    die "debootstrap $RELEASE failed: see $ROOT.log"
  touch "$ROOT/.ready"
fi
mount -t proc proc "$ROOT/proc"
chroot "$ROOT" /usr/bin/env -i PATH=/usr/bin:/bin:/usr/sbin:/sbin /bin/sh -c 'id user >/dev/null 2>&1 || useradd -m -u 1000 user'
rm -rf "$ROOT/home/user/"*
cp "$WHEEL" "$ROOT/home/user/"
chown 1000:1000 "$ROOT/home/user/"*
say "$(chroot "$ROOT" getconf GNU_LIBC_VERSION), $(chroot "$ROOT" python3 --version)"

as_user "python3 -m venv v && v/bin/pip install -q --no-index $(basename "$WHEEL") && v/bin/isobar --version"
as_user 'models=$(echo v/lib/python3*/site-packages/isobar/configs/models)
  v/bin/isobar predict $models/vit-384.yaml --machine dgx-h100 >predicted.txt && sed -n 4p predicted.txt
  v/bin/isobar plan $models/vit-384.yaml --totals >>out.txt
  v/bin/isobar search $models/llama3-8b.yaml --machine dgx-h100 --gpus 64 >>out.txt
  v/bin/isobar sweep $models/vit-tiny.yaml amp=none,bf16 steps=4 --results sweep >>out.txt
  v/bin/isobar report sweep -o report --no-figures >>out.txt
  test $(grep -c ,ok, report/tables/runs.csv) = 2'
as_user 'cat >loop.py <<END
import isobar
print(isobar.search("llama3-8b", machine="dgx-h100", gpus=64).best[0])
with isobar.run("run", net="vit-tiny", train={"global_batch": 8}) as r:
    for i in range(5):
        r.step(loss=1 / (i + 1), samples=8)
assert r.end.status == "ok", r.end
END
v/bin/python loop.py && v/bin/isobar report run -o report2 --no-figures >>out.txt'
echo "$(basename "$WHEEL") works on $RELEASE"
