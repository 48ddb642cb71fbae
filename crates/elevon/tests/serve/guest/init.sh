#!/bin/busybox sh
# The only process of a guest: what it does is named on the kernel's command line, and what it
# finds goes to the console, line by line.
/bin/busybox --install -s /bin
export PATH=/bin LD_LIBRARY_PATH=/lib
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /mnt
mount -t tmpfs none /dev/shm
# One that needs another is loaded in a later round.
for round in 1 2 3; do
  for module in /modules/*; do insmod "$module" 2>/dev/null; done
done
for word in $(cat /proc/cmdline); do
  case $word in elevon.*=*) export "${word#elevon.}" ;; esac
done

# The bytes that file number $1 has to have.
content() { yes "file $1 of the guest" | head -c 50000; }

write() {
  mkfs.ext4 -q /dev/vda && mount -t ext4 /dev/vda /mnt || return
  echo "GUEST mounted"
  fio --name=verify --filename=/mnt/fio --ioengine=psync --rw=randrw --bs=4k --size=8m --direct=1 \
    --verify=crc32c --fsync=64 --thread --minimal >/tmp/fio 2>&1
  echo "GUEST fio $?"
  number=0
  while true; do
    number=$((number + 1))
    content "$number" | dd of="/mnt/$number" conv=fsync 2>/dev/null && echo "GUEST synced $number"
  done
}

check() {
  mount -t ext4 /dev/vda /mnt || return
  number=0
  while [ "$number" -lt "$synced" ]; do
    number=$((number + 1))
    content "$number" | cmp -s - "/mnt/$number" || echo "GUEST lost $number"
  done
  echo "GUEST compared $number"
  umount /mnt
  e2fsck -fn /dev/vda
  echo "GUEST fsck $?"
}

# Reads at random places.
reads="fio --name=reads --filename=/dev/vda --readonly --rw=randread --bs=4k --direct=1 --ioengine=libaio
  --time_based --thread --minimal"

# Reads until the guest is killed.
load() {
  echo "GUEST loads"
  $reads --iodepth=64 --runtime=3600
}

# Says what each of two programs of other classes reads a second, at the same time.
ionices() {
  for class in 3 1; do
    (
      rate=$(ionice -c "$class" $reads --iodepth=16 --runtime=8 | cut -d ';' -f 8)
      echo "GUEST class $class $rate"
    ) &
  done
  wait
}

# Says how many requests of each kind end in a second.
speed() {
  for cell in read:4k:1 read:4k:32 read:4k:128 read:256k:8 write:4k:1 write:4k:32 write:4k:128 write:256k:8; do
    IFS=: read -r kind block depth <<END
$cell
END
    field=8
    [ "$kind" = read ] || field=49
    rate=$(fio --name=speed --filename=/dev/vda --rw="rand$kind" --bs="$block" --iodepth="$depth" --direct=1 \
      --ioengine=libaio --norandommap --time_based --runtime="${milliseconds}ms" --thread --minimal |
      cut -d ';' -f "$field")
    echo "GUEST speed $rate"
  done
}

# Says the sectors of the disk when they have changed, 0 if it is not there. The last can be read.
watch() {
  before=
  while true; do
    size=$(blockdev --getsz /dev/vda 2>/dev/null || echo 0)
    if [ "$size" != "$before" ]; then
      [ "$size" = 0 ] || dd if=/dev/vda of=/dev/null bs=512 skip=$((size - 8)) 2>/dev/null || echo "GUEST unread"
      echo "GUEST sectors $size"
      before=$size
    fi
    usleep 100000
  done
}

"$phase"
echo "GUEST done"
poweroff -f
