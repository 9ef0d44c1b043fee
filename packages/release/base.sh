#!/bin/sh
# The root file system of the image, for mmdebstrap --extract-hook: unpacked packages become a system. No script of a
# package has run, so this also makes what these would have. Arguments: the system, the folder for notes, user, program.
set -eu
root=$1 notes=$2 user=$3 program=$4

ls "$root/var/cache/apt/archives" | grep '\.deb$' > "$notes/packages"
(cd "$root/var/lib/apt/lists" && sha256sum -- *InRelease) > "$notes/index"
# So that scanners find the packages.
for archive in "$root"/var/cache/apt/archives/*.deb; do
    dpkg-deb --field "$archive"
    printf 'Status: install ok unpacked\n\n'
done > "$root/var/lib/dpkg/status"

# Those of the machine that builds.
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' > "$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' > "$root/etc/group"
printf '%s:x:1000:1000::/home/%s:/bin/sh\n' "$user" "$user" >> "$root/etc/passwd"
printf '%s:x:1000:\n' "$user" >> "$root/etc/group"
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
install -d -o 1000 -g 1000 -m 0755 "$root/home/$user"
[ -e "$root/bin/sh" ] || ln -s dash "$root/bin/sh"
mkdir -p "$root/usr/local/bin"
ln -s "$program/node_modules/.bin/node" "$root/usr/local/bin/node"

# Licenses stay.
find "$root/usr/share/doc" -type f ! -name copyright -delete
find "$root/usr/share/doc" -type d -empty -delete
rm -rf "$root/usr/share/man" "$root/usr/share/locale" "$root/usr/share/info" "$root/usr/share/lintian"
