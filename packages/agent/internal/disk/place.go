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

// Place says where a disk is attached.
type Place struct {
	// Names are those of udev below /dev/disk/by-path, older and newer ones.
	Names []string
	// Controller is a PCI address, as in 0000:3b:00.0.
	Controller string
	// Slot is the number of the bay, port or target at the controller, or of the PCI slot; -1: not known.
	Slot int
	// HCTL is the SCSI address: host, channel, target and LUN.
	HCTL string
}

const (
	pciSlots  = "/sys/bus/pci/slots"
	nvmeClass = "/sys/class/nvme"
)

var (
	pciAddress  = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	scsiDevice  = regexp.MustCompile(`^(\d+):(\d+):(\d+):(\d+)$`)
	ataPort     = regexp.MustCompile(`^ata\d+$`)
	sasDevice   = regexp.MustCompile(`^end_device-`)
	sasExpander = regexp.MustCompile(`^expander-`)
	pciBridge   = regexp.MustCompile(`^pci[0-9a-f]{4,}:[0-9a-f]{2}$`)
	nvmeName    = regexp.MustCompile(`^(nvme\d+)n\d+$`)
	scsiHost    = regexp.MustCompile(`^host(\d+)$`)
)

// placeOf reads the place of a disk. hardware: the folder of its device in sysfs, which lies below its controller's.
func placeOf(block, hardware, slots string) Place {
	place := Place{Slot: -1}
	scsi := scsiDevice.FindStringSubmatch(filepath.Base(hardware))
	if scsi != nil {
		place.HCTL = scsi[0]
	}
	controller := above(hardware, pciAddress)
	if controller == "" {
		return place
	}
	place.Controller = filepath.Base(controller)
	pci := "pci-" + place.Controller
	// A bridge below another controller, as of Intel VMD, has PCI addresses of its own.
	if bridge := above(controller, pciBridge); bridge != "" && pciAddress.MatchString(filepath.Base(filepath.Dir(bridge))) {
		pci = "pci-" + filepath.Base(filepath.Dir(bridge)) + "-" + pci
	}
	ata, sas := above(hardware, ataPort), above(hardware, sasDevice)
	name := filepath.Base(block)
	switch {
	case strings.HasPrefix(name, "nvme"):
		place.Names = []string{pci + "-nvme-" + or(text(block, "nsid"), "1")}
		place.Slot = pciSlot(place.Controller, slots)
	case strings.HasPrefix(name, "vd"):
		place.Names = []string{pci, "virtio-" + pci}
	case ata != "":
		port := text(ata, filepath.Join("ata_port", filepath.Base(ata), "port_no"))
		place.Names = []string{pci + "-ata-" + port, pci + "-ata-" + port + ".0"}
		place.Slot = slotNumber(port)
	case sas != "" && scsi != nil:
		about := filepath.Join(sas, "sas_device", filepath.Base(sas))
		phy, address := text(about, "phy_identifier"), text(about, "sas_address")
		at := "phy" + phy
		if expander := above(sas, sasExpander); expander != "" {
			at = "exp" + text(filepath.Join(expander, "sas_device", filepath.Base(expander)), "sas_address") + "-" + at
		}
		place.Names = []string{pci + "-sas-" + at + "-lun-" + scsi[4], pci + "-sas-" + address + "-lun-" + scsi[4]}
		place.Slot = slotNumber(first(text(about, "bay_identifier"), phy))
	case scsi != nil:
		place.Names = []string{fmt.Sprintf("%s-scsi-%d:%s:%s:%s", pci, hostOfController(controller, scsi[1]), scsi[2], scsi[3], scsi[4])}
		place.Slot = slotNumber(scsi[3])
	}
	return place
}

const byPath = "/dev/disk/by-path/"

// paths are those by which udev would name the disk; none if the place is not known.
func (p Place) paths() []string {
	var paths []string
	for _, name := range p.Names {
		paths = append(paths, byPath+name)
	}
	return paths
}

// byPath is the first path; empty if the place is not known.
func (p Place) byPath() string {
	if len(p.Names) == 0 {
		return ""
	}
	return byPath + p.Names[0]
}

// has: the path is one of udev's for the place.
func (p Place) has(path string) bool {
	for _, each := range p.paths() {
		if path == each {
			return true
		}
	}
	return false
}

// hardwareOf returns the folder of the device of a disk. One that can be reached by several paths has none of its own
// below a controller: that of its first path counts.
func hardwareOf(block, nvmeClass string) string {
	hardware, _ := filepath.EvalSymlinks(filepath.Join(block, "device"))
	if name := nvmeName.FindStringSubmatch(filepath.Base(block)); name != nil && strings.Contains(hardware, "nvme-subsys") {
		hardware, _ = filepath.EvalSymlinks(filepath.Join(nvmeClass, name[1]))
	}
	return hardware
}

// above returns the nearest folder at or above path whose name matches.
func above(path string, name *regexp.Regexp) string {
	for ; len(path) > 1; path = filepath.Dir(path) {
		if name.MatchString(filepath.Base(path)) {
			return path
		}
	}
	return ""
}

// hostOfController counts the hosts of a controller from 0: the kernel numbers all hosts of the machine, in the order
// in which it finds them.
func hostOfController(controller, host string) int {
	entries, _ := os.ReadDir(controller)
	var hosts []int
	for _, entry := range entries {
		if match := scsiHost.FindStringSubmatch(entry.Name()); match != nil {
			hosts = append(hosts, slotNumber(match[1]))
		}
	}
	sort.Ints(hosts)
	if len(hosts) == 0 {
		return 0
	}
	return slotNumber(host) - hosts[0]
}

// pciSlot returns the number of the slot of an NVMe disk: bays of NVMe disks are PCI slots.
func pciSlot(address, slots string) int {
	entries, _ := os.ReadDir(slots)
	for _, entry := range entries {
		if text(filepath.Join(slots, entry.Name()), "address") == strings.SplitN(address, ".", 2)[0] {
			return slotNumber(entry.Name())
		}
	}
	return -1
}

func slotNumber(value string) int {
	if number, err := strconv.Atoi(value); err == nil {
		return number
	}
	return -1
}
