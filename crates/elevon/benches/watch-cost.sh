#!/bin/bash
# What watching costs: the processor time of the watcher, and what the watched have beside it. As root:
#   crates/elevon/benches/watch-cost.sh ELEVON [SECONDS] [ROUNDS]
# fio reads a loop device over tmpfs at 10, 50 and 200 thousand I/Os a second: by itself, beside `elevon watch`,
# beside blktrace and beside biosnoop, in turns. Prints a line for each run, and the medians.
set -euo pipefail
elevon=$(realpath "$1") seconds=${2:-8} rounds=${3:-3}
here=$(mktemp -d)
tracefs=$(awk '$3 == "tracefs" { print $2; exit }' /proc/mounts)
if [ -z "$tracefs" ]; then mkdir "$here/tracing" && mount -t tracefs nodev "$here/tracing" && tracefs=$here/tracing; fi
mkdir "$here/debug" && mount -t debugfs nodev "$here/debug"
mkdir "$here/ram" && mount -t tmpfs -o size=300m none "$here/ram"
dd if=/dev/zero of="$here/ram/disk" bs=1M count=256 status=none
loop=$(losetup --find --show "$here/ram/disk")
cleanup() {
  losetup --detach "$loop"; umount "$here/ram"; umount -R "$here/debug"; umount "$here/tracing" 2>/dev/null || true; rm -r "$here"
}
trap cleanup EXIT
biosnoop=$(command -v biosnoop || command -v biosnoop-bpfcc || command -v biosnoop.bt || true)

# Starts a watcher; prints nothing. Its process is in $watcher.
start() {
  watcher=
  case $1 in
    watch) "$elevon" watch "$loop" --output-format json --tracefs "$tracefs" >"$here/out" 2>"$here/err" & watcher=$! ;;
    blktrace) mkdir -p "$here/blk" && (cd "$here/blk" && exec blktrace -r "$here/debug" -d "$loop" -o t >"$here/out" 2>"$here/err") & watcher=$! ;;
    biosnoop) "$biosnoop" >"$here/out" 2>"$here/err" & watcher=$! ;;
  esac
  sleep 2
}
# Milliseconds of processor time of a process, its ended children included.
used() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13 + $14 + $15) * 1000 / hz) }' "/proc/$1/stat" 2>/dev/null || echo 0; }

for round in $(seq "$rounds"); do
  for rate in 10000 50000 200000; do
    for tool in none watch blktrace biosnoop; do
      case $tool in
        blktrace) command -v blktrace >/dev/null || continue ;;
        biosnoop) [ -n "$biosnoop" ] || continue ;;
      esac
      start $tool
      if [ -n "$watcher" ] && ! kill -0 "$watcher" 2>/dev/null; then
        [ "$round" = 1 ] && [ "$rate" = 10000 ] && echo "# $tool does not run here: $(tail -1 "$here/err")" >&2
        continue
      fi
      before=$([ -n "$watcher" ] && used "$watcher" || echo 0)
      fio --name=x --filename="$loop" --rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16 --size=256m \
        --rate_iops="$rate" --time_based --runtime="$seconds" --output-format=json >"$here/fio"
      after=$([ -n "$watcher" ] && used "$watcher" || echo 0)
      followed=-
      [ "$tool" = watch ] && followed=$(jq -s 'map(.followed) | sort | .[length / 2 | floor] * 1000 | round / 10' "$here/out")
      lost=-
      [ "$tool" = watch ] && lost=$(jq -s 'map(.lost_events) | add' "$here/out")
      if [ -n "$watcher" ]; then kill -INT "$watcher"; wait "$watcher" 2>/dev/null || true; rm -rf "$here/blk"; fi
      jq -r --arg tool "$tool" --arg rate "$rate" --arg ms "$((after - before))" --arg followed "$followed" --arg lost "$lost" \
        --arg seconds "$seconds" '.jobs[0] | "\($rate) \($tool) iops=\(.read.iops | round) p50_us=\(.read.clat_ns.percentile["50.000000"] / 1000) fio_us_per_io=\((.usr_cpu + .sys_cpu) * 10000 / .read.iops * 1000 | round / 1000) watcher_cpu_percent=\(($ms | tonumber) / ($seconds | tonumber) / 10) followed_percent=\($followed) lost=\($lost)"' "$here/fio" | tee -a "$here/all"
    done
  done
done
echo "# medians of $rounds rounds, $(date -I), $(uname -r), $(nproc) processors"
for rate in 10000 50000 200000; do
  for tool in none watch blktrace biosnoop; do
    for figure in iops p50_us fio_us_per_io watcher_cpu_percent followed_percent; do
      value=$(awk -v r=$rate -v t=$tool -v f=$figure '$1 == r && $2 == t { for (i = 3; i <= NF; i++) { split($i, p, "="); if (p[1] == f) print p[2] } }' "$here/all" | sort -n | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }')
      [ -z "$value" ] || printf '%s %s %s=%s\n' "$rate" "$tool" "$figure" "$value"
    done
  done
done | awk '{ key = $1 " " $2; line[key] = line[key] " " $3; if (!(key in seen)) { seen[key] = 1; order[++n] = key } } END { for (i = 1; i <= n; i++) print order[i] line[order[i]] }'
