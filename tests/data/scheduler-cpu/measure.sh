#!/bin/sh
# CPU time of an I/O under each scheduler: see the README beside this file. Needs root, fio and jq; takes four minutes.
set -e
D=${TMPFS:-/dev/shm}/loop.img; truncate -s 1G $D; dd if=/dev/zero of=$D bs=1M count=1024 status=none
L=$(losetup -f --show $D); B=$(basename $L)
echo 1 > /sys/devices/virtual/workqueue/cpumask
for round in 1 2 3 4 5 6; do for jobs in 1 4; do for depth in 1 8; do for s in none mq-deadline kyber bfq bfq-ll0; do
  echo ${s%-ll0} > /sys/block/$B/queue/scheduler
  [ $s = bfq-ll0 ] && { echo 0 > /sys/block/$B/queue/iosched/low_latency; echo 0 > /sys/block/$B/queue/iosched/slice_idle; }
  echo 0 > /sys/block/$B/queue/iostats || true
  u0=$(awk '/^cpu0 /{print $2+$4+$7+$8, $5+$6}' /proc/stat)
  r=$(taskset -c 0 fio --name=a --filename=$L --rw=randread --bs=4k --direct=1 --ioengine=io_uring --norandommap --iodepth=$depth --numjobs=$jobs --group_reporting --runtime=1.5 --time_based --output-format=json --thread | jq -r '[.jobs[0].read.iops, .jobs[0].read.total_ios]|@tsv')
  u1=$(awk '/^cpu0 /{print $2+$4+$7+$8, $5+$6}' /proc/stat)
  echo "$round $jobs $depth $s $r busy0=$u0 busy1=$u1"
done; done; done; done
echo 3 > /sys/devices/virtual/workqueue/cpumask; losetup -d $L; rm $D
