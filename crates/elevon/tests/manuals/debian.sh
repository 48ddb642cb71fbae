#!/bin/sh
# What a booted Debian does with the package: install, serve a virtual machine's user, upgrade, purge. What it finds stands
# line by line in /out/said, and what is said besides in /out/log.
exec >/out/log 2>&1
set -x
say() { echo "$*" >>/out/said; }
uri='nbd+unix:///vm?socket=/run/elevon/example.nbd'
of_vm() { su vm -c "nbdinfo --size '${1:-$uri}'"; }
show() { systemctl show --value -p "$1" "elevon-serve@${2:-example}"; }

useradd --create-home --groups disk vm
dpkg -i /out/elevon.deb
say user "$(id -nG elevon)"
say folder "$(stat -c '%A %U:%G' /var/lib/elevon)"
# A disk of root.
truncate -s 64M /var/lib/elevon/example.img
(cd /var/lib/elevon && elevon serve --check /etc/elevon/example.toml) && say example is right
systemctl enable --now elevon-serve@example
say start "$(systemctl is-active elevon-serve@example) $(of_vm) $(of_vm) $(of_vm)"
say socket "$(stat -c '%U:%G' /run/elevon/example.nbd) $(stat -c '%U:%G' /var/lib/elevon/example.img)"
su nobody -s /bin/sh -c "nbdinfo --size '$uri'" || say nobody else
systemctl restart elevon-serve@example
say restart "$(of_vm)"
printf '[export.two]\ndevice = "example"\nread_only = true\n' >>/etc/elevon/example.toml
systemctl reload elevon-serve@example
say reload "$(elevon ctl /run/elevon/example.ctl exports | wc -l)"
before=$(show MainPID)
dpkg -i --force-confold /out/upgrade.deb
[ "$(show MainPID)" = "$before" ] && say upgrade "$(dpkg-query -W -f '${Version}' elevon) $(of_vm)"
systemctl restart elevon-serve@example
say upgraded "$(of_vm)"

# The same by a socket unit.
systemctl stop elevon-serve@example
sed 's/^listen/#&/; s/example.ctl/sock.ctl/' /etc/elevon/example.toml >/etc/elevon/sock.toml
systemctl start elevon-serve@sock.socket
sock='nbd+unix:///vm?socket=/run/elevon/sock.sock'
say activation "$(of_vm "$sock") $(of_vm "$sock") $(of_vm "$sock") $(stat -c '%a %G' /run/elevon/sock.sock)"
systemctl restart elevon-serve@sock
say again "$(of_vm "$sock")"

echo 'nonsense = 1' >/etc/elevon/bad.toml
systemctl start elevon-serve@bad
say bad "$(show ExecMainStatus bad) $(show NRestarts bad)"
rm /etc/elevon/bad.toml /etc/elevon/sock.toml

dpkg --purge elevon
say purge "$(systemctl is-active elevon-serve@sock elevon-serve@sock.socket | tr '\n' ' ')"
say left "$(ls -d /etc/elevon /run/elevon /usr/bin/elevon /etc/systemd/system/*/elevon* 2>/dev/null)"
say disks "$(ls /var/lib/elevon)"
