#!/usr/bin/env bash
# Builds the container image of the Dockerfile with buildah, tries it and measures it. ./dev image calls this on the
# platform. The storage is in the cache; Docker Hub is not needed: the base image is made by debootstrap.
set -euo pipefail
store=$1/image  # in the cache
mirror=$2
base=docker.io/library/debian:trixie-slim
limits=(--ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit "nproc=$(ulimit -Hu):$(ulimit -Hu)")  # ours, not more

buildah() { command buildah --root "$store/storage" --runroot "$store/run" --storage-driver vfs "$@"; }

make_base() {
  local container folder
  container=$(buildah from scratch)
  folder=$(buildah mount "$container")
  echo "making $base with debootstrap" >&2
  debootstrap --variant=minbase --include=ca-certificates trixie "$folder" "$mirror" >"$store/debootstrap.log"
  rm -rf "$folder"/usr/share/{doc,man,locale,info} "$folder"/var/cache/apt/* "$folder"/var/lib/apt/lists/*
  buildah commit --rm "$container" "$base"
}

build_image() {
  buildah build --isolation chroot "${limits[@]}" --pull-never --layers=false --volume "$CCACHE_DIR:/ccache" \
    --format docker --file Dockerfile --tag heed .
}

# From the image's own files and as its user: the server, and the calls that the demonstration makes.
try_image() {
  local container folder
  container=$(buildah from --pull-never heed)
  folder=$(buildah mount "$container")
  deploy/demo.sh chroot --userspec=65532:65532 "$folder" /usr/bin/heed
  unpacked=$(du -sm --apparent-size "$folder" | cut -f1)
  buildah rm "$container" >/dev/null
}

measure_image() {
  buildah push --quiet heed "oci-archive:$store/heed.tar"
  echo "image: $(($(stat -c %s "$store/heed.tar") / 1000000)) MB compressed, $unpacked MB unpacked"
  rm "$store/heed.tar"
}

mkdir -p "$store" "$CCACHE_DIR"
exec 9>"$store/lock"
flock 9
buildah rm --all >/dev/null  # of a run that was interrupted
buildah inspect --type image "$base" >/dev/null 2>&1 || make_base
build_image
try_image
measure_image
