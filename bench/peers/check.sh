#!/usr/bin/env bash
# Compares this build's step times with those stored for the same CPU model: prints a table for each net, and
# fails if a step is 10 % slower beyond noise. Run it by hand on an idle machine; it takes minutes.
#
#   bench/peers/check.sh                    # vit-small and vit-384, fp32 and bf16, all cores
#   bench/peers/check.sh --net vit-small    # one of them
#   bench/peers/check.sh --update           # stores these times as what the next ones are held against
#   bench/peers/check.sh --references DIR   # elsewhere than bench/results
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
cd "$ISOBAR_ROOT"

REFERENCES=bench/results
nets=(vit-small:4:60 vit-384:1:4)  # name, batch, steps
how=(--tolerance 10)
while (($# > 0)); do
  case "$1" in
    --update) how=(--update) ;;
    --references) REFERENCES="${2:?--references needs a folder}"; shift ;;
    --net)
      case "${2:?--net needs a name}" in
        vit-small) nets=("${nets[0]}") ;;
        vit-384) nets=("${nets[1]}") ;;
        *) die "check.sh: --net $2 is none of vit-small, vit-384" ;;
      esac
      shift
      ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "check.sh: unknown argument '$1' (see --help)" ;;
  esac
  shift
done
[[ -x build/isobar ]] || die "There is no build/isobar: bench/setup.sh makes it."

results="$(mktemp -d "${TMPDIR:-/tmp}/isobar-steps-XXXXXX")"
trap 'rm -rf "$results"' EXIT
code=0
for net in "${nets[@]}"; do
  IFS=: read -r name batch steps <<<"$net"
  headline "$name"
  cat >"$results/$name.yaml" <<SWEEP
base: $PWD/configs/models/$name.yaml
set: {data.train: "", data.valid: "", data.workers: 0, train.global_batch: $batch, policy.micro_batch: 0}
steps: $steps
warmup: 1
axes: {policy.amp: [none, bf16]}
repetitions: 3
SWEEP
  build/isobar sweep "$results/$name.yaml" --results "$results/$name" >&2
  build/isobar check "$results/$name" --reference "$REFERENCES/steps-$name.jsonl" "${how[@]}" || code=$?
done
exit $code
