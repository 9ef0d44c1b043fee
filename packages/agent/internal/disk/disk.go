// Package disk lists the disks of the machine and selects one by hints.
package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
	// Rotational is as the kernel says, which calls some virtual disks so.
	Rotational bool
	// DiscardBytes is the largest discard, 0 if the disk has none.
	DiscardBytes uint64
	// ReadOnly: the kernel refuses to write.
	ReadOnly bool
	USB      bool
	// Removable: it can be taken out of the machine, as a memory card can. Bays for disks do not count.
	Removable bool
	Place     Place
	// Medium: a CD drive, a floppy drive, or a medium that the BMC shows. It holds no data of the machine.
	Medium bool
}

// skipped are block devices that are not hardware themselves: memory, loops, and devices that are built on disks.
var skipped = []string{"dm-", "loop", "md", "nbd", "ram", "zram", "mtdblock"}

// removableMedia are drives whose media are not a part of the machine.
var removableMedia = []string{"fd", "sr"}

// bmcMedium matches vendor and model of media that BMCs show. Disks of virtual machines call themselves virtual too.
var bmcMedium = regexp.MustCompile(`(?i)virtual[ _-]*(cd|dvd|floppy|media|hdisk|usb)|^(ami|aten|avocent|cisco|insyde|ipmi|lenovo) +virtual|^idrac|^hpe? +ilo|file-stor gadget`)

// internalCard is a card slot of the machine that its BMC serves.
var internalCard = regexp.MustCompile(`(?i)internal`)

// All returns every block device with a size that is hardware, sorted by name: each path to a disk, and media too.
func All() []Disk { return listBelow(sysBlock) }

// BuiltIn returns the disks that are parts of the machine. A disk that is reached by two paths is listed once.
func BuiltIn() []Disk { return builtIn(All()) }

// List returns the disks that a system can be installed on.
func List() []Disk { return installable(BuiltIn()) }

// View is the disk in the terms of docs/drivers.md.
func (d Disk) View() map[string]any {
	view := map[string]any{
		"id": d.Name, "name": d.Path, "kind": d.Kind, "protocol": d.Protocol, "sizeBytes": d.Bytes,
		"rotational": d.Rotational, "removable": d.Removable, "readOnly": d.ReadOnly,
	}
	for name, value := range map[string]string{
		"manufacturer": d.Vendor, "model": d.Model, "serial": d.Serial, "firmwareVersion": d.Firmware, "wwn": d.WWN,
		"controller": d.Place.Controller, "hctl": d.Place.HCTL,
	} {
		if value != "" {
			view[name] = value
		}
	}
	if paths := d.Place.paths(); paths != nil {
		view["byPath"], view["paths"] = paths[0], paths
	}
	if d.Place.Slot >= 0 {
		view["slot"] = d.Place.Slot
	}
	return view
}

func builtIn(all []Disk) []Disk {
	var kept []Disk
	for _, disk := range all {
		if !disk.Medium && !disk.USB {
			kept = append(kept, disk)
		}
	}
	return singlePath(kept)
}

func installable(disks []Disk) []Disk {
	var kept []Disk
	for _, disk := range disks {
		if !disk.ReadOnly && !disk.Removable {
			kept = append(kept, disk)
		}
	}
	return kept
}

func listBelow(root string) []Disk {
	entries, _ := os.ReadDir(root)
	var disks []Disk
	for _, entry := range entries {
		if disk, ok := read(root, entry.Name()); ok {
			disks = append(disks, disk)
		}
	}
	sort.Slice(disks, func(a, b int) bool { return naturalLess(disks[a].Name, disks[b].Name) })
	return disks
}

func singlePath(disks []Disk) []Disk {
	var single []Disk
	for _, disk := range disks {
		known := false
		for _, other := range single {
			known = known || disk.HasNamesOf(other)
		}
		if !known {
			single = append(single, disk)
		}
	}
	return single
}

// HasNamesOf: both are probably paths to one disk. Some adapters give the same names to different disks.
func (d Disk) HasNamesOf(other Disk) bool {
	return d.WWN != "" && d.Serial != "" && d.WWN == other.WWN && d.Serial == other.Serial
}

// naturalLess puts sdb before sdaa, and nvme2n1 before nvme10n1.
func naturalLess(a, b string) bool {
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func read(root, name string) (Disk, bool) {
	folder := filepath.Join(root, name)
	size := number(folder, "size") * sectorBytes
	// A hidden one is one path of an NVMe disk of several. boot0 and rpmb belong to a MMC disk.
	if hasPrefix(name, skipped) || size == 0 || text(folder, "hidden") == "1" || strings.Contains(name, "boot") || strings.Contains(name, "rpmb") {
		return Disk{}, false
	}
	hardware := hardwareOf(folder, nvmeClass)
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
		ReadOnly:     text(folder, "ro") == "1",
		Rotational:   text(folder, "queue/rotational") == "1",
		USB:          strings.Contains(hardware, "/usb"),
	}
	title := disk.Vendor + " " + disk.Model
	disk.Medium = hasPrefix(name, removableMedia) || bmcMedium.MatchString(title) && !internalCard.MatchString(title)
	if strings.HasPrefix(disk.Vendor, "0x") {
		disk.Vendor = "" // of PCI, not of the disk
	}
	disk.Kind, disk.Protocol = kindOf(disk, hardware)
	// The kernel calls disks removable whose port can be hot-plugged.
	disk.Removable = disk.USB || text(folder, "device/type") == "SD" || text(folder, "removable") == "1" && disk.Protocol == "SCSI"
	disk.Place = placeOf(folder, hardware, pciSlots)
	return disk, true
}

func hasPrefix(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// kindOf: virtio disks call themselves rotational.
func kindOf(disk Disk, hardware string) (kind, protocol string) {
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
	if disk.Rotational {
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

const pciDevices = "/sys/bus/pci/devices"

// storageClass begins the PCI class of storage controllers.
const storageClass = "0x01"

// Visible says what the kernel shows of storage, for a machine without disks: most often it has no driver for the
// controller.
func Visible() string { return visibleBelow(sysBlock, pciDevices) }

func visibleBelow(blocks, devices string) string {
	entries, _ := os.ReadDir(blocks)
	var names []string
	for _, entry := range entries {
		if !hasPrefix(entry.Name(), skipped) {
			names = append(names, entry.Name())
		}
	}
	slots, _ := os.ReadDir(devices)
	var unbound []string
	for _, slot := range slots {
		folder := filepath.Join(devices, slot.Name())
		if _, err := os.Stat(filepath.Join(folder, "driver")); err == nil || !strings.HasPrefix(text(folder, "class"), storageClass) {
			continue
		}
		unbound = append(unbound, fmt.Sprintf("%s (%s:%s)", slot.Name(), strings.TrimPrefix(text(folder, "vendor"), "0x"), strings.TrimPrefix(text(folder, "device"), "0x")))
	}
	return fmt.Sprintf("The kernel shows the block devices: %s. Storage controllers without a driver: %s.",
		or(strings.Join(names, ", "), "none"), or(strings.Join(unbound, ", "), "none"))
}
