#!/usr/bin/env bash
# Builds a Debian package of the command: packaging/debian.sh [BINARY] [OUT-FOLDER]
# BINARY is target/dist/elevon unless given (cargo build --profile dist --features full). It makes the manual pages and
# completions. Needs dpkg-deb, which every Debian has. With cargo and python3 the package has a list of its parts (SBOM).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:-$root/target/dist/elevon}
out=${2:-$root/target}
[ -x "$binary" ] || { echo "packaging/debian.sh: no $binary; build it with: cargo build --profile dist --features full" >&2; exit 2; }
version=$("$binary" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
umask 022

install -D -m 755 "$binary" "$stage/usr/bin/elevon"
# Of a build for development most is what debuggers need.
if command -v strip >/dev/null; then strip "$stage/usr/bin/elevon"; fi
mkdir -p "$stage/usr/share/man/man1" "$stage/usr/share/doc/elevon" "$stage/usr/share/zsh/vendor-completions" \
  "$stage/usr/share/bash-completion/completions" "$stage/usr/share/fish/vendor_completions.d" "$stage/DEBIAN"
"$binary" man "$stage/usr/share/man/man1"
gzip -9 -n "$stage"/usr/share/man/man1/*.1
"$binary" completions bash >"$stage/usr/share/bash-completion/completions/elevon"
"$binary" completions zsh >"$stage/usr/share/zsh/vendor-completions/_elevon"
"$binary" completions fish >"$stage/usr/share/fish/vendor_completions.d/elevon.fish"
cp "$root"/README.md "$root"/CHANGELOG.md "$root"/LICENSE-* "$stage/usr/share/doc/elevon/"
cat "$root/LICENSE-MIT" >"$stage/usr/share/doc/elevon/copyright"
install -D -m 644 -t "$stage/usr/lib/systemd/system" "$root"/packaging/elevon-serve@.service "$root"/packaging/elevon-serve@.socket
cp -r "$root/docs" "$stage/usr/share/doc/elevon/docs"
if command -v cargo >/dev/null && command -v python3 >/dev/null; then "$root/packaging/sbom.sh" >"$stage/usr/share/doc/elevon/sbom.cdx.json"; fi
install -D -m 644 -t "$stage/usr/share/elevon/monitoring" "$root"/packaging/monitoring/*
install -D -m 644 "$root/packaging/elevon.sysusers" "$stage/usr/lib/sysusers.d/elevon.conf"
install -D -m 644 "$root/packaging/elevon.tmpfiles" "$stage/usr/lib/tmpfiles.d/elevon.conf"
install -D -m 644 "$root/packaging/example.toml" "$stage/etc/elevon/example.toml"
echo /etc/elevon/example.toml >"$stage/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 755 "$root/packaging/debian/$script" "$stage/DEBIAN/$script"; done

libc=$(ldd --version | sed -n '1s/.* //p')
cat >"$stage/DEBIAN/control" <<CONTROL
Package: elevon
Version: $version
Architecture: $architecture
Maintainer: The Elevon developers <elevon@localhost>
Installed-Size: $(du -sk "$stage/usr" | cut -f1)
Depends: libc6 (>= $libc), libgcc-s1, passwd
Section: utils
Priority: optional
Description: The Linux block layer as a user-space system
 Runs fio job files and traces through bio building, queue limits, splitting,
 an I/O scheduler, tags and a device, simulated or real; explains traces,
 serves disks over NBD, and sweeps parameters.
CONTROL
mkdir -p "$out"
dpkg-deb --root-owner-group --build "$stage" "$out/elevon_${version}_$architecture.deb" >/dev/null
echo "$out/elevon_${version}_$architecture.deb"
