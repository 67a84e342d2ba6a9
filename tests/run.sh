#!/usr/bin/env bash
# Runs every test of Isobar from scratch: installs what is missing, builds and tests; the longer run also has static
# checks and sanitizers.
#
#   tests/run.sh                   # tests, format: what CI has the time for; ends with "N passed, N failed"
#   tests/run.sh all               # the longer one: every suite
#   tests/run.sh --quick           # set-up, build and tests only
#   tests/run.sh tests asan        # chosen suites of: tests format studies isa hosts slurm mpich bundle wheel tidy asan tsan
#
# Suites: `tests` runs the GoogleTest programs through ctest (build/); `format` is clang-format, the scripts'
# syntax, type names that two types have, and words.py; `studies` are those of the same tests that measure or take long; `isa` runs what computes once for each instruction set of this machine, with
# oneDNN, glibc's functions and the number of threads changed, too; `hosts` trains over two emulated hosts, `slurm` sweeps through a real Slurm of two nodes on this machine (both as root,
# else skipped); `mpich` is what speaks MPI, built with MPICH and started by its mpiexec (build-mpich/; skipped where
# libmpich-dev is not installed); `bundle` runs what bench/bundle.sh makes in bare chroots of another Debian (as root, with
# debootstrap, else skipped), `wheel` what bench/wheel.sh makes in a fresh environment and, likewise, on Debian 11; `tidy` is clang-tidy; `asan` is address and undefined behaviour (build-asan/), `tsan` is threads
# (build-tsan/).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../bench/setup.sh"
cd "$ISOBAR_ROOT"

FORMAT_VERSION=14              # layout differs between versions; use this one (Debian 12's, or PyPI's wheel of it)
FORMAT_WHEEL=clang-format==14.0.6
# Long computations on doubles, which the release build has been through already: nothing there is new to a sanitizer.
ASAN_SKIPS='^perfmodel/(Referee|ClosedFormAndReplay|LayoutModel|Scoreboard|Suggest)|^engine/Product'
# Tests that measure, or whose like CI has already: statistics over many drawn worlds, worlds between those of CI, the GPU
# script from end to end; two fifths of all tests' time
STUDIES='^engine/(Product|Layouts|Fields|Graphs|Language)\.[567]$|^engine/(Product\.3$|(Parity|OtherLosses|Lora)\.portable)|^cli/Ends\.SetupKeeps|^cuda/ScriptRehearsal|^reports/(BrowserManyRuns|BudgetPages)|^guest/Programs|^import/Torch(Memory|Own|Times)|^perfmodel/(PyTorchCountsFsdpMemory|Suggest\.TwoPercentRegretNeedsHalfOfTheTrialsOfRandomOrder|Fit\.(HoldsWhereTheTermsDoNotTellEverything|IntervalsFollowTheNoise|OpTimesMakeCoefficientsBetter|MarkedContendedRunsSpoilItLessThanUnmarkedOnes))|^import/(Ties\.TheChanceThatOneIsFasterIsThatOfPublishedPairs|ShippedMachines\.AFitToSeveralCampaignsKnowsThatAnotherWillDeviate)'
# Tests that kill processes or look at the clock: on a machine that others use they run once more, alone, before they count
# as failed; the summary names them. What computes, or what a sanitizer says, is never given a second chance.
DISTURBED='^(cli|guest|micro|python)/|^base/Child|^sweep/(RunnerTest|Chaos)|^cluster/Pbs|^reports/Browser|^cuda/NcclFaults|^engine/(Failure|RankOutput|RunDirs|Signals|SlowDisk|TraceOf|Workers)'
# Tests that compute, in one order of sums or another
NUMERIC='^(cpu|backend|inference|skill)/|^comm/comm$|^engine/(Adapted|AuroraForecast|AveragedRun|Classifier|Curves|Executor|Fields|Forecast|Graphs|Jacobians|Language\.|Layouts|Lora|LearningRate|Masked|MadePoints|Mlp|Nets/Parity|ParityOfEnds|Product\.[1-4]$|Replay|RollOut|Tables|Train|Verify)'
# Programs that speak MPI, and their launcher
MPICH_PROGRAMS='test_engine test_comm test_transfers test_lanes test_worlds test_cli test_micro isobar'
MPICH_TESTS='^(comm/(comm|Transfers|Launcher)|micro/|engine/(Layouts|Fields|Graphs|Language\.|Wire|Failure|Signals|SlowDisk|Workers|Train|RunDirs|lanes|Product\.[2-4]$)|cli/(Doctor|Launched))'
# Suites for thread sanitizer: modules with threads or signal handlers of their own, and training ranks with one OpenMP
# thread each. It does not understand libgomp's barriers, so parallel loops of CPU kernels are left to `asan`.
TSAN_PROGRAMS='test_base test_data test_trace test_engine test_lanes test_sweep test_cluster isobar'
TSAN_TESTS='^(base|data|trace|sweep|cluster)/|^engine/(Arena|Checkpoints|Executor|Failure|Safetensors|Trace|Train|lanes)'
TSAN_SKIPS='^sweep/Fuzz'

suites=()
for argument in "$@"; do
  case "$argument" in
    --quick) suites+=(tests) ;;
    all) suites+=(tests format studies isa hosts slurm mpich bundle wheel tidy asan tsan) ;;
    tests | format | studies | isa | hosts | slurm | mpich | bundle | wheel | tidy | asan | tsan) suites+=("$argument") ;;
    -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "tests/run.sh: unknown argument '$argument' (see --help)" ;;
  esac
done
((${#suites[@]})) || suites=(tests format)

passed=0 failed=0 skipped=0 failures=() repeated=()
if ((EUID == 0)); then  # Open MPI refuses root otherwise; tests that start mpiexec rely on this
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export OMP_WAIT_POLICY=passive  # tests share the cores

# count NAME COMMAND...: one check; shows its output if it fails
count() {
  local name="$1" output
  shift
  if output="$("$@" 2>&1)"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1)) failures+=("$name")
    printf '%s\n   FAILED: %s\n' "$output" "$name"
  fi
}

# failed_of JUNIT REGEX: failed tests that match, as a regular expression; fails if there is none
failed_of() {
  python3 - "$@" <<'PY'
import re, sys, xml.etree.ElementTree as et
bad = [c.get("name") for c in et.parse(sys.argv[1]).getroot().iter("testcase") if c.get("status") == "fail"]
print("|".join(re.sub(r"[^A-Za-z0-9_/]", ".", n) for n in bad if re.match(sys.argv[2], n)) or sys.exit(1))
PY
}

# run_ctest DIR SUITE CTEST_ARGS...: runs ctest and adds its totals, read from its JUnit file
run_ctest() {
  local runner=(env) dir="$1" suite="$2" junit="$ISOBAR_ROOT/$1/ctest.xml" again="$ISOBAR_ROOT/$1/ctest-again.xml" disturbed totals
  shift 2
  # GCC 12's thread sanitizer cannot place its shadow memory under the wide address randomisation of newer kernels
  if [[ "$suite" == tsan ]] && setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi
  rm -f "$junit" "$again"
  if ! "${runner[@]}" ctest --test-dir "$dir" --parallel "$(($(nproc) * 2))" --output-on-failure --no-tests=error --output-junit "$junit" "$@" &&
    [[ "$suite" == tests || "$suite" == mpich ]] && disturbed="$(failed_of "$junit" "$DISTURBED")"; then
    # Tests that fail again are in the file that is read below.
    ctest --test-dir "$dir" --tests-regex "^($disturbed)$" --output-on-failure --output-junit "$again" || true
  fi
  if totals="$(python3 - "$junit" "$again" "$suite" <<'PY'
import os, sys, xml.etree.ElementTree as et
cases = list(et.parse(sys.argv[1]).getroot().iter("testcase"))
skips = [c for c in cases if c.get("status") == "disabled" or (
    c.get("status") == "notrun" and c.find("skipped").get("message").startswith("SKIP_"))]
alone = et.parse(sys.argv[2]).getroot().iter("testcase") if os.path.exists(sys.argv[2]) else []
alone = {c.get("name") for c in alone if c.get("status") == "run"}
bad = [c.get("name") for c in cases if c.get("status") != "run" and c not in skips]
named = lambda n: f"{sys.argv[3]}/{n.split()[0]}"
again = [named(n) for n in bad if n in alone]
bad = [named(n) for n in bad if n not in alone]
print(len(cases) - len(bad) - len(skips), len(bad), len(skips), *bad, *again)
PY
  )"; then
    read -r -a totals <<<"$totals"
    passed=$((passed + totals[0])) failed=$((failed + totals[1])) skipped=$((skipped + totals[2]))
    failures+=("${totals[@]:3:totals[1]}") repeated+=("${totals[@]:3+totals[1]}")
  else
    failed=$((failed + 1)) failures+=("$suite: ctest wrote no results")
  fi
}

# build_or_count DIR TARGETS [CMAKE_ARGS...]: a failing build counts as a failure, and the next suite still runs
build_or_count() {
  build_isobar "$@" && return
  failed=$((failed + 1)) failures+=("build in $1")
  return 1
}

suite_tests() {
  headline "Tests ($(duration $SECONDS) so far)"
  # -O1 for code that only controls takes a third less to compile, GPU code for one architecture a third, too, and CI has 25
  # minutes.
  local gpus=(-DCMAKE_CUDA_ARCHITECTURES=90)
  if [[ " ${suites[*]} " == *" studies "* ]]; then gpus=("-DCMAKE_CUDA_ARCHITECTURES=80;90;100"); fi
  if build_or_count build all "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -DNDEBUG" "${gpus[@]}"; then run_ctest build tests --exclude-regex "$STUDIES"; fi
}

suite_studies() {
  headline "Studies ($(duration $SECONDS) so far)"
  if build_or_count build all; then run_ctest build studies --tests-regex "$STUDIES"; fi
}

# run_script FILE ARGUMENTS...: one test that may print SKIPPED
run_script() {
  local output
  if output="$("$@" 2>&1)"; then
    if [[ "$output" == SKIPPED* ]]; then skipped=$((skipped + 1)); else passed=$((passed + 1)); fi
  else
    failed=$((failed + 1)) failures+=("$*")
  fi
  echo "$output"
}

suite_hosts() {
  headline "Two emulated hosts ($(duration $SECONDS) so far)"
  if build_or_count build isobar; then run_script tests/hosts.sh; fi
}

suite_slurm() {
  headline "A Slurm of two nodes ($(duration $SECONDS) so far)"
  if build_or_count build "isobar fake_train slow_disk"; then run_script tests/slurm.sh; fi
}

clang_format() {
  if clang-format --version 2>/dev/null | grep -q "version $FORMAT_VERSION\."; then
    echo clang-format
  else
    python_env .venv-format "$FORMAT_WHEEL" >&2 && echo "$ISOBAR_ROOT/.venv-format/bin/clang-format"
  fi
}

suite_format() {
  headline "Format ($(duration $SECONDS) so far)"
  local file format
  format="$(clang_format)" || die "no clang-format $FORMAT_VERSION: neither installed nor to be had from PyPI"
  local tracked
  tracked="$(git ls-files)" && [[ -n "$tracked" ]] || die "git ls-files names no file: the checks need the git checkout"
  count "type names are taken once" python3 tests/one_name.py
  count "includes go down" python3 tests/includes.py
  count "words of comments, documents and help" python3 tests/words.py
  local sources
  sources="$(grep -E '\.(cpp|h|cu|cuh)$' <<<"$tracked")"
  say "clang-format over $(wc -l <<<"$sources") files, syntax of the scripts"
  # All files at once; only if one differs, each alone, to name it
  local formatted=no
  if xargs -P "$(nproc)" -n 50 "$format" --dry-run -Werror <<<"$sources" >/dev/null 2>&1; then
    formatted=yes passed=$((passed + $(wc -l <<<"$sources")))
  fi
  while read -r file; do
    case "$file" in
      *.cpp | *.h | *.cu | *.cuh) [[ $formatted == yes ]] || count "clang-format $file" "$format" --dry-run -Werror "$file" ;;
      *.sh | .ci/run) count "syntax of $file" bash -n "$file" ;;
      *.py) count "syntax of $file" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file" ;;
    esac
  done <<<"$tracked"
}

suite_isa() {
  headline "Every instruction set ($(duration $SECONDS) so far)"
  build_or_count build all || return 0
  local isa flag library threads tunables
  while read -r -u 3 isa flag library threads tunables; do  # what is tested may read its input
    grep -qw -- "$flag" /proc/cpuinfo || continue
    say "$isa, oneDNN $library, $threads threads ($(duration $SECONDS) so far)"
    ISOBAR_MAX_ISA=$isa ONEDNN_MAX_CPU_ISA=$library OMP_NUM_THREADS=$threads GLIBC_TUNABLES=$tunables \
      run_ctest build "isa-$isa" --tests-regex "$NUMERIC"
  done 3<<'END'
portable flags SSE41 1 glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F
avx2 avx2 AVX2 3
avx512 avx512bw AVX512_CORE 1
avx512_bf16 avx512_bf16 AVX2 3
amx amx_bf16 AVX512_CORE_BF16 1
END
}

suite_mpich() {
  headline "MPICH ($(duration $SECONDS) so far)"
  local mpich
  mapfile -t mpich < <(mpich_cmake)
  if ((${#mpich[@]} == 0)); then
    say "skipped: apt-get install libmpich-dev mpich"
    skipped=$((skipped + 1))
    return 0
  fi
  build_or_count build-mpich "$MPICH_PROGRAMS" "${mpich[@]}" || return 0
  run_ctest build-mpich mpich --tests-regex "$MPICH_TESTS"
}

suite_bundle() {
  headline "Bundles for sites ($(duration $SECONDS) so far)"
  local mpi families=(openmpi)
  if [[ -n "$(mpich_cmake)" ]]; then families+=(mpich); fi
  for mpi in "${families[@]}"; do count "bench/bundle.sh $mpi" bench/bundle.sh "$mpi"; done
  for mpi in "${families[@]}"; do run_script tests/bundle.sh "$mpi"; done
}

suite_wheel() {
  headline "The Python wheel ($(duration $SECONDS) so far)"
  count "bench/wheel.sh" bench/wheel.sh
  run_script python3 tests/python/wheel_test.py
  run_script tests/python/wheel_chroot.sh
}

suite_tidy() {
  headline "clang-tidy ($(duration $SECONDS) so far)"
  local totals
  # Without unity builds, so that clang-tidy also finds missing #includes
  build_or_count build-tidy isobar_version -DCMAKE_UNITY_BUILD=OFF || return 0
  if totals="$(python3 tests/tidy.py build-tidy)"; then
    read -r -a totals <<<"$totals"
    passed=$((passed + totals[0])) failed=$((failed + totals[1])) failures+=("${totals[@]:2}")
  else
    failed=$((failed + 1)) failures+=("clang-tidy did not run")
  fi
}

suite_asan() {
  headline "Address and undefined-behaviour sanitizers ($(duration $SECONDS) so far)"
  build_or_count build-asan all "-DISOBAR_SANITIZE=address;undefined" || return 0
  ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    LSAN_OPTIONS=suppressions="$ISOBAR_ROOT/tests/lsan.supp":print_suppressions=0 \
    run_ctest build-asan asan --exclude-regex "$ASAN_SKIPS"
}

suite_tsan() {
  headline "Thread sanitizer ($(duration $SECONDS) so far)"
  build_or_count build-tsan "$TSAN_PROGRAMS" -DISOBAR_SANITIZE=thread || return 0
  # Halt on the first finding, because a rank that exits on its own would hide it behind its exit code.
  TSAN_OPTIONS=suppressions="$ISOBAR_ROOT/tests/tsan.supp":second_deadlock_stack=1:halt_on_error=1 OMP_NUM_THREADS=1 \
    run_ctest build-tsan tsan --tests-regex "$TSAN_TESTS" --exclude-regex "$TSAN_SKIPS"
}

headline "Set-up"
setup_isobar --tests --no-build
for suite in "${suites[@]}"; do "suite_$suite"; done

headline "All suites done in $(duration $SECONDS): ${suites[*]}"
if ((failed)); then printf '   FAILED: %s\n' "${failures[@]}"; fi
if ((${#repeated[@]})); then printf '   passed only when run again, alone: %s\n' "${repeated[@]}"; fi
echo "$passed passed, $failed failed$( ((skipped)) && echo ", $skipped skipped")"
((failed == 0))
