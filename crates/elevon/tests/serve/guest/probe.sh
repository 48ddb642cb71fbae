#!/bin/busybox sh
# Says what can be done where it runs: as root, or in the sandbox of the unit.
can() { what=$1; shift; if "$@" >/dev/null 2>&1; then echo "GUEST can $what"; else echo "GUEST refused $what"; fi; }
can write-its-state touch /var/lib/elevon/probe
can read-the-disk head -c 512 /dev/vda
can write-etc touch /etc/probe
can write-usr touch /usr/probe
can write-srv sh -c 'echo >>/srv/outside.img'
can see-home ls /root/secret
can see-others ls /proc/1/exe
can open-the-console sh -c ': <>/dev/console'
can mount mount -t tmpfs none /srv
can make-a-namespace unshare -n true
can give-to-root chown 0 /var/lib/elevon/probe
can change-the-kernel sh -c 'echo 61 >/proc/sys/vm/swappiness'
# date says that it cannot, and succeeds.
can set-the-clock sh -c 'date -s 2020-01-01; [ "$(date +%Y)" = 2020 ]'
