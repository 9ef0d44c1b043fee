// Package disk lists the disks of the machine and selects one by hints.
package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

const (
	sysBlock = "/sys/block"
	// sectorBytes is the unit of /sys/block/*/size, whatever the sectors of the disk are.
	sectorBytes = 512
	// serialHead is the length of the head of the SCSI page 0x80.
	serialHead = 4
)

// Kinds of disks.
const (
	NVMe    = "NVME"
	SSD     = "SSD"
	HDD     = "HDD"
	Virtual = "VIRTUAL"
)

// Disk is a disk of the machine.
type Disk struct {
	Name       string
	Path       string
	Kind       string
	Protocol   string
	Vendor     string
	Model      string
	Serial     string
	WWN        string
	Firmware   string
	Bytes      uint64
	SectorSize uint64
	// DiscardBytes is the largest discard, 0 if the disk has none.
	DiscardBytes uint64
}

// skipped are other block devices: memory, loops, CD drives, and devices that are built on disks.
var skipped = []string{"dm-", "fd", "loop", "md", "nbd", "ram", "sr", "zram", "mtdblock"}

// List returns the disks, sorted by name. A disk that is reached by two paths is listed once.
func List() []Disk { return listBelow(sysBlock) }

func listBelow(root string) []Disk {
	entries, _ := os.ReadDir(root)
	var disks []Disk
	for _, entry := range entries {
		if disk, ok := read(root, entry.Name()); ok {
			disks = append(disks, disk)
		}
	}
	sort.Slice(disks, func(a, b int) bool { return naturalLess(disks[a].Name, disks[b].Name) })
	return singlePath(disks)
}

func singlePath(disks []Disk) []Disk {
	seen := map[string]bool{}
	var single []Disk
	for _, disk := range disks {
		key := disk.WWN + " " + disk.Serial
		if disk.WWN != "" && disk.Serial != "" && seen[key] {
			continue
		}
		seen[key] = true
		single = append(single, disk)
	}
	return single
}

// naturalLess puts sdb before sdaa, and nvme2n1 before nvme10n1.
func naturalLess(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func read(root, name string) (Disk, bool) {
	for _, prefix := range skipped {
		if strings.HasPrefix(name, prefix) {
			return Disk{}, false
		}
	}
	folder := filepath.Join(root, name)
	size := number(folder, "size") * sectorBytes
	hardware, err := filepath.EvalSymlinks(filepath.Join(folder, "device"))
	// A disk without a device is hidden: one path of an NVMe disk of several. boot0 and rpmb belong to a MMC disk.
	if err != nil || size == 0 || text(folder, "hidden") == "1" || text(folder, "removable") == "1" ||
		text(folder, "ro") == "1" || strings.Contains(hardware, "/usb") || strings.Contains(name, "boot") || strings.Contains(name, "rpmb") {
		return Disk{}, false
	}
	disk := Disk{
		Name:         name,
		Path:         "/dev/" + name,
		Vendor:       text(folder, "device/vendor"),
		Model:        first(text(folder, "device/model"), text(folder, "device/name")),
		Serial:       serial(folder),
		WWN:          NormalWWN(first(text(folder, "wwid"), text(folder, "device/wwid"))),
		Firmware:     first(text(folder, "device/firmware_rev"), text(folder, "device/rev"), text(folder, "device/fwrev")),
		Bytes:        size,
		SectorSize:   number(folder, "queue/logical_block_size"),
		DiscardBytes: number(folder, "queue/discard_max_bytes"),
	}
	if strings.HasPrefix(disk.Vendor, "0x") {
		disk.Vendor = "" // of PCI, not of the disk
	}
	disk.Kind, disk.Protocol = kindOf(disk, text(folder, "queue/rotational") == "1", hardware)
	return disk, true
}

// kindOf: virtio disks call themselves rotational.
func kindOf(disk Disk, rotational bool, hardware string) (kind, protocol string) {
	switch {
	case strings.HasPrefix(disk.Name, "nvme"):
		return NVMe, "NVME"
	case strings.HasPrefix(disk.Name, "vd"):
		return Virtual, "VIRTIO"
	case strings.HasPrefix(disk.Name, "mmcblk"):
		return SSD, "MMC"
	}
	protocol = "SCSI"
	if strings.Contains(hardware, "/ata") || disk.Vendor == "ATA" {
		protocol = "SATA"
	} else if strings.Contains(hardware, "/end_device-") {
		protocol = "SAS"
	}
	switch disk.Vendor {
	case "QEMU", "VMware", "VMware,", "Msft", "Virtio":
		return Virtual, protocol
	}
	if strings.HasPrefix(disk.Model, "QEMU") {
		return Virtual, protocol
	}
	if rotational {
		return HDD, protocol
	}
	return SSD, protocol
}

func serial(folder string) string {
	if value := first(text(folder, "serial"), text(folder, "device/serial")); value != "" {
		return value
	}
	page, err := os.ReadFile(filepath.Join(folder, "device/vpd_pg80"))
	if err != nil || len(page) <= serialHead {
		return ""
	}
	return clean(string(page[serialHead:]))
}

// NormalWWN removes the differences between what Linux, BMCs and labels call the same name.
func NormalWWN(value string) string {
	value = strings.ToLower(strings.TrimSpace(value))
	for _, prefix := range []string{"naa.", "eui.", "wwn-", "0x"} {
		value = strings.TrimPrefix(value, prefix)
	}
	if strings.HasPrefix(value, "t10.") || strings.HasPrefix(value, "uuid.") || strings.HasPrefix(value, "nvme.") {
		return value
	}
	return strings.NewReplacer(":", "", "-", "", " ", "").Replace(value)
}

func text(folder, name string) string {
	value, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return ""
	}
	return clean(string(value))
}

func clean(value string) string {
	return strings.TrimSpace(strings.ReplaceAll(value, "\x00", ""))
}

func number(folder, name string) uint64 {
	value, _ := strconv.ParseUint(text(folder, name), 10, 64)
	return value
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

// String describes the disk in error messages.
func (d Disk) String() string {
	return fmt.Sprintf("%s (%s, %s, serial %s, wwn %s, %d bytes)", d.Path, d.Kind, or(d.Model, "no model"),
		or(d.Serial, "none"), or(d.WWN, "none"), d.Bytes)
}

func or(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

// Describe lists disks in error messages.
func Describe(disks []Disk) string {
	if len(disks) == 0 {
		return "The machine has no disk that the agent has a driver for."
	}
	var names []string
	for _, disk := range disks {
		names = append(names, disk.String())
	}
	return "The machine has " + strings.Join(names, "; ") + "."
}
