#!/usr/bin/env bash
# Settings of the image; called by mmdebstrap with the folder of the new system.
set -euo pipefail
root=$1
printf '%s\n' virtio_pci virtio_blk virtio_scsi sd_mod ahci nvme ext4 >> "$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -u -k all

echo 'LABEL=ostler-root / ext4 defaults 0 1' > "$root/etc/fstab"
echo unset > "$root/etc/hostname"
: > "$root/etc/machine-id"
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/resolv.conf"
echo 'nameserver 127.0.0.53' > "$root/etc/resolv.conf"

kernel=$(cd "$root" && ls boot/vmlinuz-* | head -1)
initrd=$(cd "$root" && ls boot/initrd.img-* | head -1)
mkdir -p "$root/boot/grub"
cat > "$root/boot/grub/grub.cfg" <<CONFIG
set timeout=0
linux /$kernel root=LABEL=ostler-root ro console=tty0 console=ttyS0 net.ifnames=0 no_timer_check quiet mitigations=off fsck.mode=skip
initrd /$initrd
boot
CONFIG

cat > "$root/etc/cloud/cloud.cfg.d/90-image.cfg" <<'CONFIG'
# Only the modules that the test needs: each costs Python a second under software emulation.
datasource_list: [NoCloud, None]
locale: false
apt_preserve_sources_list: true
ssh_genkeytypes: [ed25519]
cloud_init_modules: [seed_random, bootcmd, write-files, growpart, resizefs, set_hostname, update_hostname, users-groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-vendor, scripts-per-once, scripts-per-boot, scripts-per-instance, scripts-user, phone-home, final-message]
CONFIG
# Timers and units that only delay a start.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
  fstrim.timer systemd-pstore.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
  sys-fs-fuse-connections.mount sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount dev-mqueue.mount \
  getty@tty1.service systemd-hwdb-update.service systemd-networkd-wait-online.service; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" systemctl enable -q systemd-networkd.service
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/doc/* "$root"/var/log/*.log
