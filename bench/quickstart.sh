#!/usr/bin/env bash
# A tour of Isobar from a bare machine: install, build, calibrate, sweep, fit, predict, report.
#
#   bench/quickstart.sh            # under 10 minutes on 2 cores; a second run reuses what is there
#   bench/quickstart.sh --fresh    # forget the last run's results (not the build) and start over
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ISOBAR_ROOT"

RESULTS=results/demo
MACHINE=results/machine.yaml     # measured here by calibrate
FITTED=results/demo-fitted.yaml  # refined by a fit to half of the sweep
REPORT=reports/out
DATA=data/demo
DATA_OPTIONS=(--channels 4 --height 64 --width 128 --train-years 2 --valid-years 1 --samples-per-year 200)
SWEEP=configs/sweeps/demo.yaml

case "${1:-}" in
  "") ;;
  --fresh) rm -rf "$RESULTS" "$MACHINE" "$FITTED" "$REPORT" ;;
  -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) die "quickstart.sh: unknown argument '$1' (see --help)" ;;
esac

isobar() { build/isobar "$@"; }

# stage NAME SECONDS: prints a stage's headline; SECONDS is its time on 2 cores from scratch
STAGES=("Set-up and build:240" "Doctor:2" "Data:5" "Calibration:60" "Sweep:120" "Fit:10" "Report:5")
[[ ! -x build/isobar ]] || STAGES[0]="Set-up and build:5"
[[ ! -f "$DATA/.made" ]] || STAGES[2]="Data:0"
[[ ! -f "$MACHINE" ]] || STAGES[3]="Calibration:0"
[[ ! -f "$FITTED" ]] || STAGES[4]="Sweep:5"
stage_index=0
stage() {
  local left=0 i
  for ((i = stage_index; i < ${#STAGES[@]}; i++)); do left=$((left + ${STAGES[i]##*:})); done
  headline "$((stage_index + 1))/${#STAGES[@]} ${STAGES[stage_index]%%:*}  ($(duration $SECONDS) so far, at most some $(duration $left) left)"
  stage_index=$((stage_index + 1))
}

# current STAMP WHAT...: true if a stage completed with exactly these settings
current() { [[ "$(cat "$1" 2>/dev/null)" == "${*:2}" ]]; }

stage # Set-up and build
setup_isobar

stage # Doctor
isobar doctor || die "A required part does not work (see above)."

stage # Data
if current "$DATA/.made" "${DATA_OPTIONS[@]}"; then
  say "$DATA is there"
else
  isobar data make "$DATA" "${DATA_OPTIONS[@]}" --force
  echo "${DATA_OPTIONS[*]}" >"$DATA/.made"
fi

mkdir -p "$(dirname "$MACHINE")"
stage # Calibration
calibrated="$(uname -n) $(nproc) cores $(git rev-parse HEAD:model/backend 2>/dev/null || true)"
if [[ -f "$MACHINE" ]] && current "$MACHINE.for" "$calibrated"; then
  say "$MACHINE is there, measured on this machine with these kernels"
else
  isobar calibrate -o "$MACHINE"
  echo "$calibrated" >"$MACHINE.for"
fi

stage # Sweep: complete trials are not run again
isobar sweep "$SWEEP" --results "$RESULTS"

stage # Fit
# The 10th percentile of a run's step times excludes most disturbance on a shared machine.
isobar fit "$RESULTS" --machine "$MACHINE" --holdout 0.5 --splits 10 --statistic p10 -o "$FITTED"

stage # Report
isobar report "$RESULTS" --machine "$FITTED" -o "$REPORT"

headline "Done in $(duration $SECONDS)"
cat <<END
   The report, with every run measured beside predicted: $ISOBAR_ROOT/$REPORT/index.html

   Three things to try next:
     build/isobar predict configs/models/vit-384.yaml --machine $FITTED     # a net that was not run here
     build/isobar train configs/models/vit-demo.yaml --ranks 2 --set data.train=$DATA/train --trace trace.json
     build/isobar plan configs/models/vit-1536.yaml --set layout.dp=2        # operations and memory of each rank
END
