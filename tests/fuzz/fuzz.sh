#!/bin/sh
# Fuzzes: `fuzz.sh BUILD SECONDS [TARGET...]` lets every target search SECONDS long, two at a time,
# from a copy of its corpus, which stays as it is. Exit status: 0 nothing found, 1 something: its
# input is in BUILD/findings, the log in BUILD/logs.
set -eu
build=$1
seconds=$2
shift 2
corpus=$(dirname "$0")/corpus
findings=$build/findings
mkdir -p "$findings" "$build/logs"
[ $# -gt 0 ] || set -- $(cat "$build/fuzz_targets.txt")

fuzz() {
  target=$1
  work=$(mktemp -d)
  status=0
  # A chunk may be 256 MiB, stored and decoded; nothing else may ask for more at once.
  "$build/bin/fuzz_$target" -seed="${SEED:-1}" -max_total_time="$seconds" -max_len=16384 -timeout=20 \
    -rss_limit_mb=2048 -malloc_limit_mb=600 -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$work" "$corpus/$target" \
    > "$build/logs/$target.log" 2>&1 || status=$?
  rm -rf "$work"
  if [ "$status" -ne 0 ]; then
    tail -n 40 "$build/logs/$target.log"
    echo "$target: a finding; its input is in $findings, the log in $build/logs/$target.log" >&2
    return 1
  fi
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$build/logs/$target.log")
  coverage=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$build/logs/$target.log" | tail -n 1)
  echo "$target: $executions executions, $coverage edges, nothing found"
}

failed=0
while [ $# -gt 0 ]; do
  first=$1
  second=${2:-}
  fuzz "$first" &
  one=$!
  if [ -n "$second" ]; then
    fuzz "$second" || failed=1
    shift
  fi
  wait $one || failed=1
  shift
done
exit $failed
