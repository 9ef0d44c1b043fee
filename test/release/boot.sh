#!/bin/sh
# Makes a folder the whole system that a program can see, in new namespaces: `unshare … sh boot.sh FOLDER PROGRAM…`. The
# program begins in that folder, below the old root; it ends with `unshare --root=.`, which works without any program in
# the folder.
set -eu
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mkdir -p proc sys run tmp dev
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in run tmp dev; do mount -t tmpfs tmpfs "$folder"; done
chmod 1777 tmp
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ip link set lo up
# systemd passes credentials to services through a mount that has to reach it.
mount --make-rshared .
mount --move . /
exec "$@"
