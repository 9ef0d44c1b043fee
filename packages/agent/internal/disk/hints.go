package disk

import (
	"fmt"
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
	Model  string `json:"model,omitempty"`
	Kind   string `json:"kind,omitempty"`
	// Controller is the PCI address of the controller, and Slot the number of the bay or port at it.
	Controller   string `json:"controller,omitempty"`
	Slot         *int   `json:"slot,omitempty"`
	MinimumBytes uint64 `json:"minimumBytes,omitempty"`
	MaximumBytes uint64 `json:"maximumBytes,omitempty"`
}

// Select returns the only disk that matches. Without hints that is the only disk: the agent does not guess, because the
// disk is overwritten.
func Select(disks []Disk, hints *Hints) (Disk, error) {
	wanted := Hints{}
	if hints != nil {
		wanted = *hints
	}
	var found []Disk
	for _, disk := range disks {
		if wanted.match(disk) {
			found = append(found, disk)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return Disk{}, task.Fail(NotFound, "No disk matches %s. %s", wanted, Describe(disks))
	}
	return Disk{}, task.Fail(Ambiguous, "%d disks match %s. Give hints that only one matches. %s", len(found), wanted, Describe(disks))
}

func (h Hints) match(disk Disk) bool {
	return (h.Path == "" || h.Path == disk.Path || h.Path == disk.Name || disk.Place.has(h.Path)) &&
		(h.Controller == "" || strings.EqualFold(h.Controller, disk.Place.Controller)) &&
		(h.Slot == nil || *h.Slot == disk.Place.Slot) &&
		(h.Serial == "" || strings.EqualFold(strings.TrimSpace(h.Serial), disk.Serial)) &&
		(h.WWN == "" || NormalWWN(h.WWN) == disk.WWN) &&
		(h.Model == "" || strings.Contains(strings.ToLower(disk.Model), strings.ToLower(strings.TrimSpace(h.Model)))) &&
		(h.Kind == "" || h.Kind == disk.Kind) &&
		disk.Bytes >= h.MinimumBytes && (h.MaximumBytes == 0 || disk.Bytes <= h.MaximumBytes)
}

// String names what was asked for.
func (h Hints) String() string {
	var parts []string
	for _, part := range []struct{ name, value string }{
		{"path", h.Path}, {"serial", h.Serial}, {"wwn", h.WWN}, {"model", h.Model}, {"kind", h.Kind}, {"controller", h.Controller},
	} {
		if part.value != "" {
			parts = append(parts, part.name+" "+part.value)
		}
	}
	if h.Slot != nil {
		parts = append(parts, fmt.Sprintf("slot %d", *h.Slot))
	}
	if h.MinimumBytes > 0 {
		parts = append(parts, fmt.Sprintf("at least %d bytes", h.MinimumBytes))
	}
	if h.MaximumBytes > 0 {
		parts = append(parts, fmt.Sprintf("at most %d bytes", h.MaximumBytes))
	}
	if len(parts) == 0 {
		return "the request, which has no hints"
	}
	return "the hints " + strings.Join(parts, ", ")
}
