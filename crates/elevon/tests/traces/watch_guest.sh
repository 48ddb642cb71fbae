#!/bin/busybox sh
# The only process of a guest: `elevon watch` beside problems of a real kernel, or what watching costs. Disks are
# of null_blk. What it finds goes to the console, or to the first disk.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t debugfs none /sys/kernel/debug
mount -t tracefs none /sys/kernel/tracing
mount -t cgroup2 none /sys/fs/cgroup
mkdir -p /dev/shm
mount -t tmpfs none /dev/shm
# One that needs another is loaded in a later round.
for round in 1 2 3; do
  for module in /modules/*; do insmod "$module" $([ "${module##*/}" = null_blk.ko ] && echo nr_devices=0) 2>/dev/null; done
done
mount -t configfs none /sys/kernel/config
for word in $(cat /proc/cmdline); do
  case $word in elevon.*=*) export "${word#elevon.}" ;; esac
done

# Makes a disk: its name, the nanoseconds of a request, and how many it serves at a time.
disk() {
  folder=/sys/kernel/config/nullb/$1
  mkdir -p "$folder"
  echo 0 >"$folder/power"
  echo 1024 >"$folder/size"
  # A timer ends requests, or they end at once.
  [ "$2" = 0 ] && echo 0 >"$folder/irqmode" || echo 2 >"$folder/irqmode"
  echo "$2" >"$folder/completion_nsec"
  echo "$3" >"$folder/hw_queue_depth"
  echo 1 >"$folder/power"
}
# Reads a disk for some seconds with a size, one read after the other.
read_disk() { timeout "$2" dd if="/dev/$1" of=/dev/null bs="$3" iflag=direct 2>/dev/null; }

# Each problem has a disk of its own. All begin with the first I/O of their disk, but for the last one, and last for
# $lasts seconds.
problems() {
  for number in 0 1 2; do disk nullb$number 8000000 2; done
  disk nullb3 8000000 64
  disk nullb4 100000 64
  disk nullb5 4000000 64
  echo bfq >/sys/block/nullb1/queue/scheduler
  for number in 2 3; do echo mq-deadline >/sys/block/nullb$number/queue/scheduler; done
  echo 4 >/sys/block/nullb3/queue/nr_requests
  echo 4 >/sys/block/nullb4/queue/max_sectors_kb
  echo +io >/sys/fs/cgroup/cgroup.subtree_control
  mkdir /sys/fs/cgroup/held
  echo "$(cat /sys/block/nullb0/dev) rbps=524288" >/sys/fs/cgroup/held/io.max
  elevon watch --output-format json $(ls /dev/nullb[0-5]) >/tmp/watched &
  watcher=$!
  until [ -s /tmp/watched ]; do kill -0 $watcher || return; sleep 1; done
  read_disk nullb5 3 4k
  disk nullb5 50000000 64
  (echo 0 >/sys/fs/cgroup/held/cgroup.procs && read_disk nullb0 "$lasts" 16k) &
  for number in 1 2 3; do
    fio --name=deep --filename=/dev/nullb$number --direct=1 --size=256m --bs=4k --rw=randread --ioengine=libaio \
      --iodepth=16 --time_based --runtime="$lasts" >/dev/null &
    fio="$fio $!"
  done
  for number in 1 2; do
    ionice -c 3 timeout $((lasts + 6)) dd if=/dev/nullb$number of=/dev/null bs=4k iflag=direct 2>/dev/null &
  done
  read_disk nullb4 "$lasts" 64k &
  read_disk nullb5 "$lasts" 4k
  wait $fio
  sleep 6
  kill -INT "$watcher"
  wait "$watcher"
  echo "GUEST watched $?"
  cat /tmp/watched >/dev/vda
  sync
}

# Ticks of a hundredth of a second of processor time of the tools.
ticks() {
  for id in $tools; do sed 's/.*) //' "/proc/$id/stat"; done | awk '{ all += $12 + $13 + $14 + $15 } END { print all + 0 }'
}
# Those of all processors.
all_ticks() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8; exit }' /proc/stat; }
# Starts a tool. Its processes are in $tools.
begin() {
  : >/tmp/out
  case $1 in
    watch) elevon watch /dev/nullb0 --output-format json >/tmp/out 2>&1 & ;;
    blktrace) blktrace -d /dev/nullb0 -o - >/dev/null 2>/tmp/out & ;;
    blkparse) { blktrace -d /dev/nullb0 -o - | blkparse -i - >/dev/null; } 2>/tmp/out & ;;
    biosnoop) biosnoop >/tmp/out 2>&1 & ;;
  esac
  # The first line of a tool that has one comes when it is ready.
  for wait in $(seq 60); do
    sleep 1
    [ -s /tmp/out ] && break
    case $1 in none | blk*) [ "$wait" -gt 2 ] && break ;; esac
  done
  tools=$(pidof elevon blktrace blkparse biosnoop)
  [ "$1" = none ] || [ -n "$tools" ]
}

# What watching costs: at each rate of $rates, where 0 is as fast as it goes, by itself and beside each tool.
cost() {
  disk nullb0 0 64
  for round in $(seq "$rounds"); do
    for rate in $(echo "$rates" | tr , ' '); do
      for name in none watch blktrace blkparse biosnoop; do
        begin $name || { echo "GUEST refused $name $(tail -1 /tmp/out)"; continue; }
        before=$(ticks) all_before=$(all_ticks)
        [ "$rate" = 0 ] && pace= || pace=--rate_iops=$rate
        fio --name=io --filename=/dev/nullb0 --rw=randread --bs=4k --direct=1 --ioengine=psync --size=256m $pace \
          --time_based --runtime="$lasts" --output-format=terse --terse-version=3 >/tmp/fio 2>/dev/null
        after=$(ticks) all_after=$(all_ticks)
        [ -z "$tools" ] || kill -INT $tools
        wait
        # The fields of fio: I/Os a second, percentiles of the 50th and the 99th, and its own processor time.
        awk -F ';' -v words="$rate $name $((after - before)) $((all_after - all_before))" \
          '{ split($24, a, "="); split($30, b, "="); print "GUEST cost " words " " $8 " " a[2] " " b[2] " " $88 " " $89 }' /tmp/fio
      done
    done
  done
}

"$phase"
echo "GUEST done"
poweroff -f
