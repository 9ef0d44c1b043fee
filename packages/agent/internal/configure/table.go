package configure

import (
	"fmt"
	"sort"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// Codes of errors.
const (
	PartitionsUnusable = "PARTITIONS_UNUSABLE"
	BootEntryFailed    = "BOOT_ENTRY_FAILED"
)

// alignBytes is where partitions begin: whole blocks of every disk.
const alignBytes = 1 << 20

// seedLabel is the name by which cloud-init finds the seed.
const seedLabel = "CIDATA"

// store is the disk, or memory in tests.
type store interface {
	Load(offset, length int64) ([]byte, error)
	Store(offset int64, data []byte) error
}

// partition is a part of the disk, in sectors. Both ends belong to it.
type partition struct {
	number      int
	first, last uint64
	// system: an EFI system partition. extended: it contains others, and cannot be grown alone.
	system, extended bool
	seed             bool
}

// table is a partition table that is being changed.
type table interface {
	// partitions are those in use, without the seed.
	partitions() []partition
	// end is the first sector that no partition can use.
	end() uint64
	removeSeed()
	// addSeed returns the number of the new partition.
	addSeed(first, last uint64) (int, error)
	setLast(number int, last uint64)
	write(device store) error
	kind() string
}

// readTable fails if the disk has no table that the agent can change.
func readTable(device store, d disk.Disk) (table, error) {
	head, err := device.Load(0, int64(2*d.SectorSize))
	if err != nil {
		return nil, task.Fail(PartitionsUnusable, "%v", err)
	}
	if head[510] != 0x55 || head[511] != 0xAA {
		return nil, task.Fail(PartitionsUnusable, "%s has no partition table: the image is not one of a whole disk.", d)
	}
	for slot := 0; slot < mbrSlots; slot++ {
		if mbrType(head, slot) == mbrProtective {
			return readGPT(device, d, head)
		}
	}
	return readMBR(device, d, head[:mbrBytes])
}

// lastPartition is the one with the highest address, which need not have the highest number.
func lastPartition(list []partition) (partition, bool) {
	sorted := append([]partition(nil), list...)
	sort.Slice(sorted, func(a, b int) bool { return sorted[a].last < sorted[b].last })
	if len(sorted) == 0 {
		return partition{}, false
	}
	return sorted[len(sorted)-1], true
}

// layout is what arrange has decided.
type layout struct {
	seed  partition
	grown partition
	note  string
}

// arrange puts the seed at the end of the disk, and grows the last partition up to it. A seed of an earlier run is
// replaced.
func arrange(t table, d disk.Disk, grow bool, seedBytes uint64) (layout, error) {
	var result layout
	t.removeSeed()
	align := alignBytes / d.SectorSize
	limit := t.end()
	last, any := lastPartition(t.partitions())
	if seedBytes > 0 {
		sectors := seedBytes / d.SectorSize
		if limit < sectors+align || (limit-sectors)/align*align <= last.last {
			return result, task.Fail(PartitionsUnusable, "%s has no room for the seed of %d bytes behind the image.", d, seedBytes)
		}
		result.seed.first = (limit - sectors) / align * align
		result.seed.last = result.seed.first + sectors - 1
		number, err := t.addSeed(result.seed.first, result.seed.last)
		if err != nil {
			return result, err
		}
		result.seed.number = number
		limit = result.seed.first
	}
	if !grow {
		return result, nil
	}
	if !any || last.extended {
		result.note = "the last partition is a logical one, or there is none: not grown"
		return result, nil
	}
	if end := limit/align*align - 1; end > last.last {
		t.setLast(last.number, end)
		last.last = end
	}
	result.grown = last
	return result, nil
}

// devicePath is the name of a partition's device.
func devicePath(d disk.Disk, number int) string {
	if digit := d.Name[len(d.Name)-1]; digit >= '0' && digit <= '9' {
		return fmt.Sprintf("%sp%d", d.Path, number)
	}
	return fmt.Sprintf("%s%d", d.Path, number)
}
