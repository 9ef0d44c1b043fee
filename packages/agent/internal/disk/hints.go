package disk

import (
	"fmt"
	"sort"
	"strings"

	"ostler-agent/internal/task"
)

// Codes of errors of the selection.
const (
	NotFound  = "DISK_NOT_FOUND"
	Ambiguous = "DISK_AMBIGUOUS"
)

// Hints say which disk is meant. All that are given must match.
type Hints struct {
	Path   string `json:"path,omitempty"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	Model  string `json:"model,omitempty"`
	Kind   string `json:"kind,omitempty"`
	// Rotational is as the kernel says.
	Rotational *bool `json:"rotational,omitempty"`
	// HCTL is the SCSI address, as in 0:2:1:0. The first number depends on the order in which the kernel finds controllers.
	HCTL string `json:"hctl,omitempty"`
	// Controller is the PCI address of the controller, and Slot the number of the bay or port at it.
	Controller   string `json:"controller,omitempty"`
	Slot         *int   `json:"slot,omitempty"`
	MinimumBytes uint64 `json:"minimumBytes,omitempty"`
	MaximumBytes uint64 `json:"maximumBytes,omitempty"`
}

// defaultBytes: without hints, no smaller disk is chosen among several. The value is that of OpenStack Ironic.
const defaultBytes = 4 << 30

// Select returns the disk to install on. With hints it is the only one that matches all of them: the agent does not
// guess, because the disk is overwritten. Without hints it is the only disk, or the smallest of at least 4 GiB; of
// equal ones the first by its place, serial number and WWN, which do not change from boot to boot as names do.
//
// The service decides by the same rule before anything is erased (src/lifecycle/root-disk.ts). Both are tested with
// testdata/root-disk.json.
func Select(disks []Disk, hints *Hints) (Disk, error) {
	if hints == nil || *hints == (Hints{}) {
		return selectDefault(disks)
	}
	var found []Disk
	for _, disk := range disks {
		if hints.match(disk) {
			found = append(found, disk)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return Disk{}, task.Fail(NotFound, "No disk matches %s. %s", hints, Describe(disks))
	}
	return Disk{}, task.Fail(Ambiguous, "%d disks match %s. Give hints that only one matches. %s", len(found), hints, Describe(disks))
}

func selectDefault(disks []Disk) (Disk, error) {
	var found []Disk
	for _, disk := range disks {
		if disk.Bytes >= defaultBytes || len(disks) == 1 {
			found = append(found, disk)
		}
	}
	sort.SliceStable(found, func(a, b int) bool {
		if found[a].Bytes != found[b].Bytes {
			return found[a].Bytes < found[b].Bytes
		}
		return found[a].precedes(found[b])
	})
	switch {
	case len(found) == 0:
		return Disk{}, task.Fail(NotFound, "No disk has at least 4 GiB, and there are no hints. %s", Describe(disks))
	case len(found) > 1 && found[0].Bytes == found[1].Bytes && !found[0].precedes(found[1]):
		return Disk{}, task.Fail(Ambiguous, "The smallest disks of at least 4 GiB are equal, and have no place, serial number or WWN to choose by. Give hints. %s", Describe(disks))
	}
	return found[0], nil
}

// precedes compares by what stays the same; what is known comes before what is not.
func (d Disk) precedes(other Disk) bool {
	for _, pair := range [][2]string{{d.Place.byPath(), other.Place.byPath()}, {d.Serial, other.Serial}, {d.WWN, other.WWN}} {
		if pair[0] != pair[1] {
			return pair[1] == "" || pair[0] != "" && naturalLess(pair[0], pair[1])
		}
	}
	return false
}

// match takes no disk that lacks what a hint names, even if the hint is blank.
func (h Hints) match(disk Disk) bool {
	return (h.Path == "" || h.Path == disk.Path || h.Path == disk.Name || disk.Place.has(h.Path)) &&
		(h.Controller == "" || strings.EqualFold(h.Controller, disk.Place.Controller)) &&
		(h.Slot == nil || *h.Slot == disk.Place.Slot) &&
		(h.HCTL == "" || h.HCTL == disk.Place.HCTL) &&
		(h.Serial == "" || disk.Serial != "" && strings.EqualFold(strings.TrimSpace(h.Serial), disk.Serial)) &&
		(h.WWN == "" || disk.WWN != "" && NormalWWN(h.WWN) == disk.WWN) &&
		isPart(h.Vendor, disk.Vendor) && isPart(h.Model, disk.Model) &&
		(h.Kind == "" || h.Kind == disk.Kind) &&
		(h.Rotational == nil || *h.Rotational == disk.Rotational) &&
		disk.Bytes >= h.MinimumBytes && (h.MaximumBytes == 0 || disk.Bytes <= h.MaximumBytes)
}

func isPart(part, whole string) bool {
	return part == "" || whole != "" && strings.Contains(strings.ToLower(whole), strings.ToLower(strings.TrimSpace(part)))
}

// String names what was asked for.
func (h Hints) String() string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"path", h.Path}, {"serial", h.Serial}, {"wwn", h.WWN}, {"vendor", h.Vendor}, {"model", h.Model}, {"kind", h.Kind},
		{"controller", h.Controller}, {"hctl", h.HCTL},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	if h.Slot != nil {
		parts = append(parts, fmt.Sprintf("slot %d", *h.Slot))
	}
	if h.Rotational != nil {
		parts = append(parts, fmt.Sprintf("rotational %t", *h.Rotational))
	}
	if h.MinimumBytes > 0 {
		parts = append(parts, fmt.Sprintf("at least %d bytes", h.MinimumBytes))
	}
	if h.MaximumBytes > 0 {
		parts = append(parts, fmt.Sprintf("at most %d bytes", h.MaximumBytes))
	}
	return "the hints " + strings.Join(parts, ", ")
}
