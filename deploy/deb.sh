#!/usr/bin/env bash
# Makes the Debian package of a heed that is built: ./dev deb calls this on the platform. What it depends on follows from
# the shared libraries of the program; docs/operations.md says what is in it.
set -euo pipefail
umask 022
heed=$1
version=$("$heed" --version | cut -d' ' -f2)
architecture=$(dpkg --print-architecture)
folder=build/deb/debian/heed
package=build/deb/heed_${version}_$architecture.deb

put() { install -D --mode="${3:-644}" "$1" "$folder/$2"; }  # FILE PATH [MODE]
write() { install -D --mode=644 /dev/stdin "$folder/$1"; }  # PATH, of what stdin has

fill() {
  put "$heed" usr/bin/heed 755
  strip "$folder/usr/bin/heed"
  "$heed" man | gzip --no-name --best | write usr/share/man/man1/heed.1.gz
  "$heed" completion bash | write usr/share/bash-completion/completions/heed
  "$heed" completion zsh | write usr/share/zsh/vendor-completions/_heed
  put deploy/heed.service usr/lib/systemd/system/heed.service
  put deploy/heed.textproto etc/heed/heed.textproto
  put deploy/debian/copyright usr/share/doc/heed/copyright
  local config file  # each model with its card, which names its data and their licences
  for config in models/*/config.json; do
    for file in "${config%/*}"/{README.md,*.json,*.safetensors}; do put "$file" "usr/share/heed/$file"; done
  done
}

# "libc6 (>= 2.38), libgrpc++1.51t64 (>= 1.51.1), ...". The tool wants to be where sources are, beside a package's folder.
# It does not know opentelemetry-cpp, whose libraries have no versions: control names that one.
depends() {
  mkdir "$folder/DEBIAN"
  echo 'Source: heed' >build/deb/debian/control
  (cd build/deb && dpkg-shlibdeps -O debian/heed/usr/bin/heed) | sed 's/^shlibs:Depends=//'
}

describe() {
  local script depends
  depends=$(depends)
  sed -e "s/{version}/$version/" -e "s/{architecture}/$architecture/" -e "s/{depends}/$depends/" \
    -e "s/{kilobytes}/$(du -sk --apparent-size "$folder" | cut -f1)/" deploy/debian/control | write DEBIAN/control
  echo /etc/heed/heed.textproto | write DEBIAN/conffiles
  for script in postinst prerm postrm; do put "deploy/debian/$script" "DEBIAN/$script" 755; done
}

rm -rf build/deb
fill
describe
dpkg-deb --root-owner-group -z1 --build "$folder" "$package" >/dev/null  # weights hardly get smaller
echo "$package: $(($(stat -c %s "$package") / 1000000)) MB"
