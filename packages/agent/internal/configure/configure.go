// Package configure prepares a written disk for its first start: partitions, the seed of cloud-init, the boot entry.
package configure

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"time"

	"ostler-agent/internal/command"
	"ostler-agent/internal/disk"
	"ostler-agent/internal/image"
	"ostler-agent/internal/session"
	"ostler-agent/internal/task"
)

type request struct {
	Disk *struct {
		Path   string `json:"path"`
		Serial string `json:"serial"`
	} `json:"disk"`
	RootDisk     *disk.Hints `json:"rootDisk"`
	MinimumBytes uint64      `json:"minimumBytes"`
	GrowLast     bool        `json:"growLast"`
	Seed         *seed       `json:"seed"`
	BootEntry    bool        `json:"bootEntry"`
}

// seed has the texts of the files of cloud-init's NoCloud.
type seed struct {
	MetaData      *string `json:"metaData"`
	UserData      *string `json:"userData"`
	VendorData    *string `json:"vendorData"`
	NetworkConfig *string `json:"networkConfig"`
}

type partitionView struct {
	Number int    `json:"number"`
	Path   string `json:"path"`
	Start  uint64 `json:"startBytes"`
	Bytes  uint64 `json:"bytes"`
	Role   string `json:"role,omitempty"`
}

type output struct {
	Disk       image.Written   `json:"disk"`
	Table      string          `json:"table,omitempty"`
	Partitions []partitionView `json:"partitions"`
	// FileSystem is what was done to the file system of the grown partition.
	FileSystem string  `json:"fileSystem,omitempty"`
	BootEntry  *string `json:"bootEntry"`
	// BootNote says why the entry is not the one of the next start.
	BootNote string `json:"bootNote,omitempty"`
}

// Run is the task configure. Done again, it replaces what it has done before.
func Run(ctx context.Context, args json.RawMessage, progress task.Progress) (any, error) {
	var wanted request
	if err := task.Decode(args, &wanted); err != nil {
		return nil, err
	}
	selected, err := target(wanted)
	if err != nil {
		return nil, err
	}
	result := output{Disk: image.Written{Path: selected.Path, Serial: selected.Serial, WWN: selected.WWN, Bytes: selected.Bytes}}
	progress(10, "partitions of "+selected.Path)
	list, grown, err := arrangeDisk(selected, wanted, &result)
	if err != nil {
		return nil, err
	}
	if wanted.GrowLast && grown.number > 0 && result.FileSystem == "" {
		progress(40, "file system of "+devicePath(selected, grown.number))
		result.FileSystem = growFileSystem(ctx, selected, grown)
	}
	if wanted.BootEntry {
		progress(90, "boot entry")
		if result.BootEntry, result.BootNote, err = addBootEntry(ctx, selected, list); err != nil {
			return nil, err
		}
	}
	return result, ctx.Err()
}

// target is the disk that is named, or the one that this agent has written, or the one that the hints select.
func target(wanted request) (disk.Disk, error) {
	all := disk.List()
	if wanted.Disk != nil {
		return disk.Select(all, &disk.Hints{Path: wanted.Disk.Path, Serial: wanted.Disk.Serial})
	}
	var written image.Written
	if text := session.Kept("disk"); text != nil && json.Unmarshal(text, &written) == nil {
		return disk.Select(all, &disk.Hints{Path: written.Path, Serial: written.Serial, WWN: written.WWN})
	}
	return disk.Select(all, wanted.RootDisk)
}

func arrangeDisk(d disk.Disk, wanted request, result *output) ([]partition, partition, error) {
	device, err := disk.Open(d)
	if err != nil {
		return nil, partition{}, task.Fail(PartitionsUnusable, "%v", err)
	}
	defer device.Close()
	t, err := readTable(device, d)
	if err != nil {
		return nil, partition{}, err
	}
	done, err := change(device, t, d, wanted)
	if err != nil {
		return nil, partition{}, err
	}
	if err := reread(device); err != nil {
		return nil, partition{}, task.FailRetryable(PartitionsUnusable, "The kernel does not read the partitions of %s: %v.", d, err)
	}
	result.Table, result.FileSystem = t.kind(), done.note
	list := t.partitions()
	for _, each := range list {
		view := partitionView{each.number, devicePath(d, each.number), each.first * d.SectorSize, (each.last - each.first + 1) * d.SectorSize, ""}
		switch {
		case each.number == done.seed.number:
			view.Role = "SEED"
		case each.system:
			view.Role = "EFI_SYSTEM"
		}
		result.Partitions = append(result.Partitions, view)
	}
	return list, done.grown, nil
}

// change writes the seed's file system before the table that names it.
func change(device store, t table, d disk.Disk, wanted request) (layout, error) {
	if wanted.Seed == nil && !wanted.GrowLast {
		return layout{}, nil
	}
	space, seedBytes := seedGeometry(d.SectorSize), uint64(0)
	if wanted.Seed != nil {
		seedBytes = space.bytes
	}
	done, err := arrange(t, d, wanted.GrowLast, seedBytes)
	if err != nil {
		return done, err
	}
	if wanted.Seed != nil {
		content, err := fatImage(space, wanted.Seed.files())
		if err != nil {
			return done, err
		}
		if err := device.Store(int64(done.seed.first*d.SectorSize), content); err != nil {
			return done, task.Fail(PartitionsUnusable, "The seed cannot be written: %v.", err)
		}
	}
	if err := t.write(device); err != nil {
		return done, task.Fail(PartitionsUnusable, "The partition table cannot be written: %v.", err)
	}
	return done, nil
}

// files: cloud-init takes a seed only if it has both meta-data and user-data.
func (s *seed) files() []file {
	text := func(value *string) []byte {
		if value == nil {
			return nil
		}
		return []byte(*value)
	}
	list := []file{
		{"meta-data", "META-D~1   ", text(s.MetaData)},
		{"user-data", "USER-D~1   ", text(s.UserData)},
	}
	if s.VendorData != nil {
		list = append(list, file{"vendor-data", "VENDOR~1   ", text(s.VendorData)})
	}
	if s.NetworkConfig != nil {
		list = append(list, file{"network-config", "NETWOR~1   ", text(s.NetworkConfig)})
	}
	return list
}

// reread tries for some seconds: the kernel may still be looking at the disk that was just written.
func reread(device *disk.Device) error {
	if err := device.Sync(); err != nil {
		return err
	}
	var err error
	for try := 0; try < 10; try++ {
		if err = device.RereadPartitions(); err == nil {
			return nil
		}
		time.Sleep(300 * time.Millisecond)
	}
	return err
}

const (
	extMagicOffset = 1024 + 56
	extMagic       = 0xEF53
)

// growFileSystem grows ext2, ext3 and ext4. Other file systems are grown by the installed system, as cloud-init does,
// and so is one that this agent's programs do not know.
func growFileSystem(ctx context.Context, d disk.Disk, grown partition) string {
	device, err := disk.OpenReadOnly(d)
	if err != nil {
		return "not grown: " + err.Error()
	}
	magic, err := device.Load(int64(grown.first*d.SectorSize)+extMagicOffset, 2)
	device.Close()
	if err != nil || binary.LittleEndian.Uint16(magic) != extMagic {
		return "not ext4: the installed system grows it"
	}
	path := devicePath(d, grown.number)
	// resize2fs wants a file system that was checked. Status 1: it was, and something was repaired.
	checked, err := command.Output(ctx, "e2fsck", "-f", "-p", path)
	if err != nil || checked.Status > 1 {
		return "not grown: e2fsck: " + checked.Message()
	}
	if _, err := command.Run(ctx, "resize2fs", path); err != nil {
		return "not grown: " + err.Error()
	}
	return "grown"
}
