#!/usr/bin/env bash
# Builds the disk image that the end-to-end test installs: Debian 12 with cloud-init and an SSH server.
#
#   build-image.sh OUT      writes OUT/debian.raw and OUT/debian.raw.zst
#
# GPT with a BIOS boot partition, an EFI system partition and the root file system as the last partition, so that it
# boots from UEFI and from BIOS, and the root can grow. GRUB is on the removable path of the EFI system partition.
# Needs root, and the programs of test/e2e/prerequisites.ts. MIRROR is the address of a Debian mirror, by default that
# of mmdebstrap.
set -euo pipefail
out=$(realpath -m "${1:?usage: build-image.sh OUT}")
here=$(cd "$(dirname "$0")" && pwd)
[ "$(id -u)" = 0 ] || { echo "build-image.sh needs root, for the owners of files in the image." >&2; exit 1; }
mkdir -p "$out"
work=$(mktemp -d "$out/build.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"

# cloud-init recommends much that this image does not need. Documentation, translations and modules of hardware that no
# virtual machine has are left out, because every byte is written under software emulation.
mmdebstrap --variant=minbase --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
  --dpkgopt='path-exclude=/lib/modules/*/kernel/drivers/gpu/*' \
  --dpkgopt='path-exclude=/lib/modules/*/kernel/sound/*' \
  --include=systemd,systemd-sysv,udev,dbus,linux-image-cloud-amd64,initramfs-tools,zstd,cloud-init \
  --include=openssh-server,iproute2,netbase,python3-minimal \
  --essential-hook="mkdir -p \"\$1/etc/initramfs-tools/conf.d\" && cp $here/initramfs.conf \"\$1/etc/initramfs-tools/conf.d/image\"" \
  --customize-hook="$here/customize.sh \"\$1\"" \
  bookworm root.tar ${MIRROR:+"$MIRROR"}
mkdir root
tar -C root -xf root.tar --numeric-owner
rm root.tar

# The root file system has 15 % free; it grows to the disk when it is installed.
used=$(du -sm --apparent-size root | cut -f1)
size=$((used + used / 7 + 48))
truncate -s "${size}M" root.img
mke2fs -q -t ext4 -m 1 -L ostler-root -d root root.img

echo 'search --no-floppy --label ostler-root --set=root
configfile /boot/grub/grub.cfg' > early.cfg
modules="part_gpt ext2 search search_label linux normal configfile"
# shellcheck disable=SC2086
grub-mkimage -O x86_64-efi -o BOOTX64.EFI -p /boot/grub -c early.cfg $modules
# shellcheck disable=SC2086
grub-mkimage -O i386-pc -o core.img -p /boot/grub -c early.cfg $modules biosdisk
truncate -s 16M esp.img
mkfs.vfat -n ESP esp.img >/dev/null
mmd -i esp.img ::/EFI ::/EFI/BOOT
mcopy -i esp.img BOOTX64.EFI ::/EFI/BOOT/

# MiB: 1 to 2 BIOS boot, 2 to 18 ESP, from 18 on the root; one MiB for the second partition table.
truncate -s "$((18 + size + 1))M" disk
sfdisk -q disk <<'TABLE'
label: gpt
start=1MiB, size=1MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios
start=2MiB, size=16MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp
start=18MiB, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root
TABLE
dd if=esp.img of=disk bs=1M seek=2 conv=notrunc status=none
dd if=root.img of=disk bs=1M seek=18 conv=notrunc,sparse status=none
# As grub-bios-setup does it to a device: the boot sector loads the first sector of core.img, which loads the others.
sector() { printf '%016x' "$1" | sed 's/\(..\)/\1 /g' | awk '{ for (i = NF; i > 0; i--) printf "\\x%s", $i }'; }
cp /usr/lib/grub/i386-pc/boot.img boot.img
printf "$(sector 2048)" | dd of=boot.img bs=1 seek=92 conv=notrunc status=none
printf "$(sector 2049)" | dd of=core.img bs=1 seek=500 conv=notrunc status=none
dd if=boot.img of=disk bs=1 count=440 conv=notrunc status=none
dd if=core.img of=disk bs=512 seek=2048 conv=notrunc status=none

zstd -q -T0 -10 -f disk -o "$out/debian.raw.zst"
mv disk "$out/debian.raw"
ls -l --block-size=K "$out/debian.raw" "$out/debian.raw.zst"
