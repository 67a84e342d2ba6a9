#!/usr/bin/env bash
# This build's step times beside the last ones stored for the same kind of CPU: prints a table, and fails where a step
# takes 10 % longer, and more than noise. By hand, while nothing else runs: two minutes on two cores.
#
#   bench/peers/check.sh              # vit-small and vit-384, fp32 and bf16, all cores
#   bench/peers/check.sh --update     # stores these times as what the next ones are held against
#   bench/peers/check.sh --reference FILE
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../setup.sh"
cd "$ISOBAR_ROOT"

REFERENCE=bench/results/steps.jsonl
how=(--tolerance 10)
while (($# > 0)); do
  case "$1" in
    --update) how=(--update) ;;
    --reference) REFERENCE="${2:?--reference needs a file}"; shift ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "check.sh: unknown argument '$1' (see --help)" ;;
  esac
  shift
done
[[ -x build/isobar ]] || die "There is no build/isobar: bench/setup.sh makes it."

results="$(mktemp -d "${TMPDIR:-/tmp}/isobar-steps-XXXXXX")"
trap 'rm -rf "$results"' EXIT
for net in vit-small:4:60 vit-384:1:6; do
  IFS=: read -r name batch steps <<<"$net"
  build/isobar sweep "configs/models/$name.yaml" amp=none,bf16 "steps=$steps" warmup=2 --repeat 3 \
    data.train= data.valid= data.workers=0 train.global_batch="$batch" policy.micro_batch=0 \
    --results "$results" >&2
done
build/isobar check "$results" --reference "$REFERENCE" "${how[@]}"
