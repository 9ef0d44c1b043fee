package erase

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"

	"ostler-agent/internal/disk"
)

const (
	markBytes = 4096
	marksMax  = 16
	// diskEdge and partitionEdge are what METADATA removes at both ends: partition tables, the heads of file systems,
	// LVM, ZFS and RAID.
	diskEdge      = 4 << 20
	partitionEdge = 1 << 20
	// discardBytes is how much is discarded before a cancel is looked for.
	discardBytes = 1 << 30
)

// marks are random blocks at known places of a disk.
type marks struct {
	data    []byte
	offsets []int64
}

func markOffsets(size uint64) []int64 {
	blocks := size / markBytes
	count := uint64(marksMax)
	if blocks < count {
		count = blocks
	}
	var offsets []int64
	for index := uint64(0); index < count; index++ {
		block := uint64(0)
		if count > 1 {
			block = (blocks - 1) / (count - 1) * index
		}
		if index == count-1 {
			block = blocks - 1
		}
		offsets = append(offsets, int64(block*markBytes))
	}
	return offsets
}

func mark(d disk.Disk) (*marks, error) {
	device, err := disk.Open(d)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	buffer, err := disk.Buffer(markBytes)
	if err != nil {
		return nil, err
	}
	defer disk.Free(buffer)
	if _, err := rand.Read(buffer); err != nil {
		return nil, err
	}
	written := &marks{data: append([]byte(nil), buffer...), offsets: markOffsets(d.Bytes)}
	for _, offset := range written.offsets {
		if _, err := device.WriteAt(buffer, offset); err != nil {
			return nil, err
		}
	}
	return written, device.Sync()
}

// sameDisk: marks that are written through one path are read through the other.
func sameDisk(one, other disk.Disk) bool {
	written, err := mark(one)
	return err == nil && written.appear(other)
}

func (m *marks) appear(d disk.Disk) bool {
	device, err := disk.OpenReadOnly(d)
	if err != nil {
		return false
	}
	defer device.Close()
	buffer, err := disk.Buffer(markBytes)
	if err != nil {
		return false
	}
	defer disk.Free(buffer)
	for _, offset := range m.offsets {
		if _, err := device.ReadAt(buffer, offset); err != nil || !bytes.Equal(buffer, m.data) {
			return false
		}
	}
	return true
}

// gone fails if a mark can still be read, or if its block cannot be read at all.
func (m *marks) gone(d disk.Disk) error {
	device, err := disk.Open(d)
	if err != nil {
		return err
	}
	defer device.Close()
	buffer, err := disk.Buffer(markBytes)
	if err != nil {
		return err
	}
	defer disk.Free(buffer)
	for _, offset := range m.offsets {
		if _, err := device.ReadAt(buffer, offset); err != nil {
			return fmt.Errorf("byte %d cannot be read: %w", offset, err)
		}
		if bytes.Equal(buffer, m.data) {
			return fmt.Errorf("the data at byte %d is still there", offset)
		}
	}
	return device.RereadPartitions()
}

func discard(ctx context.Context, d disk.Disk, progress func(percent int)) error {
	return inParts(ctx, d, discardBytes, progress, func(device *disk.Device, offset, length uint64) error {
		return device.Discard(offset, length)
	})
}

// overwrite writes zeros itself: a drive may answer a command for zeros without writing any.
func overwrite(ctx context.Context, d disk.Disk, progress func(percent int)) error {
	zeros, err := disk.Buffer(disk.ChunkBytes)
	if err != nil {
		return err
	}
	defer disk.Free(zeros)
	return inParts(ctx, d, disk.ChunkBytes, progress, func(device *disk.Device, offset, length uint64) error {
		_, err := device.WriteAt(zeros[:length], int64(offset))
		return err
	})
}

func inParts(ctx context.Context, d disk.Disk, part uint64, progress func(percent int), do func(device *disk.Device, offset, length uint64) error) error {
	device, err := disk.Open(d)
	if err != nil {
		return err
	}
	defer device.Close()
	for offset := uint64(0); offset < d.Bytes; offset += part {
		if err := ctx.Err(); err != nil {
			return err
		}
		length := part
		if d.Bytes-offset < length {
			length = d.Bytes - offset
		}
		if err := do(device, offset, length); err != nil {
			return fmt.Errorf("at byte %d: %w", offset, err)
		}
		progress(int(offset * 99 / d.Bytes))
	}
	return device.Sync()
}

func eraseMetadata(d disk.Disk) error {
	device, err := disk.Open(d)
	if err != nil {
		return err
	}
	defer device.Close()
	for _, partition := range d.Partitions() {
		if err := zeroEdges(device, partition.Start, partition.Bytes, partitionEdge); err != nil {
			return fmt.Errorf("%s: %w", partition.Path, err)
		}
	}
	if err := zeroEdges(device, 0, d.Bytes, diskEdge); err != nil {
		return err
	}
	if err := device.Sync(); err != nil {
		return err
	}
	return device.RereadPartitions()
}

func zeroEdges(device *disk.Device, start, length, edge uint64) error {
	if length <= 2*edge {
		return device.ZeroOut(start, length)
	}
	if err := device.ZeroOut(start, edge); err != nil {
		return err
	}
	return device.ZeroOut(start+length-edge, edge)
}
