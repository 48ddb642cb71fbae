#!/bin/bash
# What watching costs: the processor time of the watcher, and how much slower the watched are beside it. As root:
#   crates/elevon/benches/watch-cost.sh ELEVON [SECONDS] [ROUNDS] [TOOLS]
# fio reads a loop device over tmpfs at 10, 50 and 200 thousand I/Os a second. A round has it by itself and beside each
# tool, in an order that changes: `elevon watch`, blktrace, blktrace with blkparse, biosnoop. A slowdown is the mean of
# the rounds' pairs (beside the tool, by itself) with the interval that holds it 95 times in 100. Needs jq.
set -euo pipefail
elevon=$(realpath "$1") seconds=${2:-5} rounds=${3:-10} wanted=${4:-watch blktrace blkparse biosnoop}
here=$(mktemp -d)
tracefs=$(awk '$3 == "tracefs" { print $2; exit }' /proc/mounts)
if [ -z "$tracefs" ]; then mkdir "$here/tracing" && mount -t tracefs nodev "$here/tracing" && tracefs=$here/tracing; fi
mkdir "$here/debug" && mount -t debugfs nodev "$here/debug"
mkdir "$here/ram" && mount -t tmpfs -o size=300m none "$here/ram"
dd if=/dev/zero of="$here/ram/disk" bs=1M count=256 status=none
loop=$(losetup --find --show "$here/ram/disk")
watcher=
cleanup() {
  [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
  losetup --detach "$loop"; umount "$here/ram"; umount -R "$here/debug"; umount "$here/tracing" 2>/dev/null || true; rm -r "$here"
}
trap cleanup EXIT
biosnoop=$(command -v biosnoop || command -v biosnoop-bpfcc || command -v biosnoop.bt || true)
# Milliseconds of processor time of a process and its children.
used() {
  local pid files=/proc/$1/stat
  for pid in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do files="$files /proc/$pid/stat"; done
  cat $files 2>/dev/null | awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); sum += $12 + $13 + $14 + $15 } END { print int(sum * 1000 / hz) }'
}
# Starts a watcher and waits until it watches. Its process is in $watcher, empty if it does not run here.
start() {
  watcher=
  case $1 in
    none) return ;;
    watch) "$elevon" watch "$loop" --output-format json --tracefs "$tracefs" >"$here/out" 2>"$here/err" & ;;
    blktrace) mkdir "$here/blk" && (cd "$here/blk" && exec blktrace -r "$here/debug" -d "$loop" -o t >"$here/out" 2>"$here/err") & ;;
    blkparse) (blktrace -r "$here/debug" -d "$loop" -o - 2>"$here/err" | blkparse -i - >"$here/out" 2>&1; true) & ;;
    biosnoop) "$biosnoop" >"$here/out" 2>"$here/err" & ;;
  esac
  watcher=$!
  sleep 2
  kill -0 "$watcher" 2>/dev/null || watcher=
}
stop() {
  [ -n "$watcher" ] || return 0
  if [ "$1" = blkparse ]; then kill -INT $(cat "/proc/$watcher/task/$watcher/children") 2>/dev/null || true; else kill -INT "$watcher"; fi
  wait "$watcher" 2>/dev/null || true
  rm -rf "$here/blk"; watcher=
}
tools=(none)
for tool in $wanted; do
  case $tool in blktrace | blkparse) command -v $tool >/dev/null || continue ;; biosnoop) [ -n "$biosnoop" ] || continue ;; esac
  start "$tool"
  if [ -n "$watcher" ]; then tools+=("$tool"); else echo "# $tool does not run here: $(tail -1 "$here/err")"; fi
  stop "$tool"
done
for round in $(seq "$rounds"); do
  for rate in 10000 50000 200000; do
    for at in $(seq 0 $((${#tools[@]} - 1))); do
      tool=${tools[$(((at + round) % ${#tools[@]}))]}
      start "$tool"
      before=$([ -z "$watcher" ] && echo 0 || used "$watcher")
      fio --name=x --filename="$loop" --rw=randread --bs=4k --direct=1 --ioengine=io_uring --iodepth=16 --size=256m \
        --rate_iops="$rate" --time_based --runtime="$seconds" --output-format=json >"$here/fio"
      after=$([ -z "$watcher" ] && echo 0 || used "$watcher")
      stop "$tool"
      followed=null lost=null
      if [ "$tool" = watch ]; then
        followed=$(jq -s "map(select(.disks[0].read.requests > 100).followed) | sort | .[length / 2 | floor] * 100" "$here/out") lost=$(jq -s 'map(.lost_events) | add' "$here/out")
      fi
      jq -c --arg tool "$tool" --argjson round "$round" --argjson rate "$rate" --argjson ms "$((after - before))" --argjson s "$seconds" \
        --argjson followed "$followed" --argjson lost "$lost" --argjson load "$(cut -d' ' -f1 /proc/loadavg)" \
        '.jobs[0] | { round: $round, rate: $rate, tool: $tool, iops: .read.iops, lat_us: (.read.lat_ns.mean / 1000),
          p50_us: (.read.clat_ns.percentile["50.000000"] / 1000), p99_us: (.read.clat_ns.percentile["99.000000"] / 1000),
          fio_us: ((.usr_cpu + .sys_cpu) * 10000 / .read.iops), cpu: ($ms / $s / 10), followed: $followed, lost: $lost, load: $load }' \
        "$here/fio" | tee -a "$here/all"
    done
  done
done
echo "# $rounds rounds of $seconds s, $(date -I), $(uname -r), $(nproc) processors; medians, and slowdowns with their 95 % intervals"
jq -s -r --argjson n "$rounds" '
  def median: sort | .[length / 2 | floor];
  def show: . * 100 | round / 100;
  # The quantile of the distribution of Student, to a hundredth from five pairs on.
  def t: (. - 1) as $df | 1.96 + 2.4 / $df + 3 / ($df * $df);
  def interval: (add / length) as $mean | (map(. - $mean | . * .) | add / (length - 1) | sqrt) as $sd
    | "\($mean * 100 | show) % +-\($sd * (length | t) / (length | sqrt) * 100 | show)";
  . as $all | (map(.rate) | unique[]) as $rate | (map(.tool) | unique[]) as $tool
  | ($all | map(select(.rate == $rate and .tool == $tool)) | sort_by(.round)) as $these
  | ($all | map(select(.rate == $rate and .tool == "none")) | sort_by(.round)) as $none
  | "\($rate) \($tool): iops \($these | map(.iops) | median | round), p50 \($these | map(.p50_us) | median | show) us, p99 \($these | map(.p99_us) | median | show) us, fio \($these | map(.fio_us) | median | show) us an I/O, load \($these | map(.load) | median)"
    + if $tool == "none" or $n < 2 then "" else
        ", tool \($these | map(.cpu) | median | show) % of a processor; slower by I/Os a second \([range($n) | $none[.].iops / $these[.].iops - 1] | interval), by mean latency \([range($n) | $these[.].lat_us / $none[.].lat_us - 1] | interval)"
      end
    + if $tool == "watch" then ", followed \($these | map(.followed) | median | show) %, lost \($these | map(.lost) | add)" else "" end' "$here/all"
