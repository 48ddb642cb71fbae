#!/usr/bin/env bash
# Builds a container image of the command: packaging/image.sh [BINARY] [OUT]
# BINARY is target/dist/elevon unless given (cargo build --profile dist --features full), OUT target/elevon_VERSION_ARCHITECTURE.oci.tar, an
# archive of OCI: skopeo copy oci-archive:OUT containers-storage:localhost/elevon, or docker-daemon:elevon:latest.
# In it are the command, the libraries of this machine that it is linked with, and the documents; nothing is fetched, and
# root is not needed. The same input gives the same bytes, with the time of SOURCE_DATE_EPOCH or of the last commit.
# Needs umoci.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
binary=${1:-$root/target/dist/elevon}
[ -x "$binary" ] || { echo "packaging/image.sh: no $binary; build it with: cargo build --profile dist --features full" >&2; exit 2; }
command -v umoci >/dev/null || { echo "packaging/image.sh: needs umoci" >&2; exit 2; }
version=$("$binary" --version | cut -d' ' -f2)
case $(uname -m) in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$(uname -m) ;; esac
out=${2:-$root/target/elevon_${version}_$architecture.oci.tar}
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
stage=$work/stage
documents=$stage/usr/share/doc/elevon

install -D -m 755 "$binary" "$stage/usr/bin/elevon"
# Of a build for development most is what debuggers need.
if command -v strip >/dev/null; then strip "$stage/usr/bin/elevon"; fi
mkdir -p "$documents/libraries" "$stage/disks" "$stage/etc/elevon" "$stage/tmp"
cp "$root"/README.md "$root"/CHANGELOG.md "$root"/LICENSE-* "$documents/"
cp -r "$root/docs" "$documents/docs"
if command -v cargo >/dev/null && command -v python3 >/dev/null; then "$root/packaging/sbom.sh" >"$documents/sbom.cdx.json"; fi
# The libraries lie where the loader of this machine looks for them, and their licences beside our documents.
for library in $(ldd "$binary" | grep -o '/[^ ]*'); do
  install -D -m 755 "$library" "$stage$library"
  package=$(dpkg -S "$library" 2>/dev/null || dpkg -S "$(realpath "$library")" 2>/dev/null || true)
  licence=/usr/share/doc/${package%%:*}/copyright
  if [ -n "$package" ] && [ -f "$licence" ]; then cp "$licence" "$documents/libraries/${package%%:*}"; fi
done
printf 'root:x:0:0::/:/usr/sbin/nologin\nelevon:x:10809:10809::/disks:/usr/sbin/nologin\n' >"$stage/etc/passwd"
printf 'root:x:0:\nelevon:x:10809:\n' >"$stage/etc/group"
chmod 1777 "$stage/tmp"

pack() { tar --sort=name --format=gnu --numeric-owner --mtime="@$epoch" "$@"; }
# Files in /disks have to belong to the user of the image.
pack --owner=0 --group=0 -C "$stage" --exclude=./disks -cf "$work/layer" .
pack --owner=10809 --group=10809 -C "$stage" -rf "$work/layer" ./disks

image=$work/image
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
umoci init --layout "$image"
umoci new --image "$image:$version"
umoci raw add-layer --image "$image:$version" --history.created "$created" --history.author elevon \
  --history.created_by packaging/image.sh "$work/layer"
# NBD, and metrics for Prometheus.
umoci config --no-history --image "$image:$version" --created "$created" --architecture "$architecture" --os linux \
  --config.user 10809:10809 --config.workingdir /disks --config.volume /disks \
  --config.exposedports 10809/tcp --config.exposedports 9464/tcp \
  --config.entrypoint /usr/bin/elevon --config.cmd serve --config.cmd /etc/elevon/serve.toml
umoci gc --layout "$image"
mkdir -p "$(dirname "$out")"
pack --owner=0 --group=0 --mode=a+rX,u+w -C "$image" -cf "$out" .
echo "$out"
