package erase

import (
	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// Means of erasing a disk, as the result names them.
const (
	NVMeFormat   = "nvme-format"
	NVMeSanitize = "nvme-sanitize"
	ATASecure    = "ata-secure-erase"
	Discard      = "discard"
	Overwrite    = "overwrite"
	Metadata     = "metadata"
)

// facts are what a disk offers, as far as the choice of means needs it.
type facts struct {
	disk disk.Disk
	nvme *controller
	ata  *security
	// keptSibling: a namespace of the same NVMe device must be kept.
	keptSibling bool
}

// plan returns the means in the order in which they are tried. What the drive does to all its cells comes first;
// overwriting always works, but does not reach cells that an SSD has set aside.
func plan(f facts) ([]string, error) {
	var means []string
	if f.nvme != nil {
		if f.nvme.format && !(f.nvme.formatsAll && f.keptSibling) {
			means = append(means, NVMeFormat)
		}
		if f.nvme.sanitize() != 0 && !f.keptSibling {
			means = append(means, NVMeSanitize)
		}
	}
	if f.ata != nil {
		if f.ata.locked {
			return nil, task.Fail(NotErased, "%s is locked with an ATA password. Unlock it with the password, or replace it.", f.disk)
		}
		if f.ata.supported && !f.ata.frozen && !f.ata.enabled {
			means = append(means, ATASecure)
		}
	}
	if f.disk.DiscardBytes > 0 && f.disk.Kind != disk.HDD {
		means = append(means, Discard)
	}
	return append(means, Overwrite), nil
}
