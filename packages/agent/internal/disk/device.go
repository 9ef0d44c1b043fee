package disk

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"
)

// ioctl numbers of linux/fs.h.
const (
	blkRereadPartitions = 0x125F
	blkDiscard          = 0x1277
	blkZeroOut          = 0x127F
)

// ChunkBytes is what is read or written at once: large enough for disks, small enough to stop within a second.
const ChunkBytes = 4 << 20

// Device is an open disk whose data does not pass through the memory of the kernel: nothing is left to be written when
// a task is cancelled.
type Device struct {
	file *os.File
	Disk Disk
}

// Open fails if anything else uses the disk.
func Open(disk Disk) (*Device, error) {
	file, err := os.OpenFile(disk.Path, os.O_RDWR|syscall.O_DIRECT|syscall.O_EXCL, 0)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened for writing: %w", disk.Path, err)
	}
	return &Device{file, disk}, nil
}

// OpenReadOnly is Open for a disk that is not changed.
func OpenReadOnly(disk Disk) (*Device, error) {
	file, err := os.OpenFile(disk.Path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", disk.Path, err)
	}
	return &Device{file, disk}, nil
}

// Buffer returns memory at the beginning of a page, as direct access needs it. It is not garbage collected: Free it.
func Buffer(bytes int) ([]byte, error) {
	return syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
}

// Free returns the memory of Buffer.
func Free(buffer []byte) { _ = syscall.Munmap(buffer[:cap(buffer)]) }

// WriteAt needs a buffer of Buffer, an offset and a length that are multiples of the sector size.
func (d *Device) WriteAt(buffer []byte, offset int64) (int, error) {
	return d.file.WriteAt(buffer, offset)
}

// ReadAt has the needs of WriteAt.
func (d *Device) ReadAt(buffer []byte, offset int64) (int, error) {
	return d.file.ReadAt(buffer, offset)
}

// Sync makes the disk write its own cache.
func (d *Device) Sync() error { return d.file.Sync() }

// Close closes the disk.
func (d *Device) Close() error { return d.file.Close() }

// Discard makes a range of the disk unused.
func (d *Device) Discard(offset, length uint64) error { return d.rangeCall(blkDiscard, offset, length) }

// ZeroOut makes a range read as zeros: by a command of the disk if it has one, else by writing.
func (d *Device) ZeroOut(offset, length uint64) error { return d.rangeCall(blkZeroOut, offset, length) }

func (d *Device) rangeCall(request uintptr, offset, length uint64) error {
	span := [2]uint64{offset, length}
	return control(d.file, request, unsafe.Pointer(&span))
}

// RereadPartitions makes the kernel see a changed partition table.
func (d *Device) RereadPartitions() error { return control(d.file, blkRereadPartitions, nil) }

func control(file *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, number := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(argument)); number != 0 {
		return number
	}
	return nil
}

// Partition is a part of a disk as the kernel sees it.
type Partition struct {
	Path  string
	Start uint64
	Bytes uint64
}

// Partitions lists what the kernel knows of the disk's partition table.
func (d Disk) Partitions() []Partition { return partitionsBelow(sysBlock, d.Name) }

func partitionsBelow(root, name string) []Partition {
	folder := root + "/" + name
	entries, _ := os.ReadDir(folder)
	var partitions []Partition
	for _, entry := range entries {
		below := folder + "/" + entry.Name()
		if text(below, "partition") == "" {
			continue
		}
		partitions = append(partitions, Partition{
			Path:  "/dev/" + entry.Name(),
			Start: number(below, "start") * sectorBytes,
			Bytes: number(below, "size") * sectorBytes,
		})
	}
	return partitions
}

// Load reads a range at any offset.
func (d *Device) Load(offset, length int64) ([]byte, error) {
	buffer, begin, err := d.loadAligned(offset, length)
	if err != nil {
		return nil, err
	}
	defer Free(buffer)
	return append([]byte(nil), buffer[begin:begin+length]...), nil
}

// Store writes a range at any offset.
func (d *Device) Store(offset int64, data []byte) error {
	buffer, begin, err := d.loadAligned(offset, int64(len(data)))
	if err != nil {
		return err
	}
	defer Free(buffer)
	copy(buffer[begin:], data)
	_, err = d.WriteAt(buffer, offset-begin)
	return err
}

// loadAligned reads the whole sectors around a range.
func (d *Device) loadAligned(offset, length int64) (buffer []byte, begin int64, err error) {
	sector := int64(d.Disk.SectorSize)
	begin = offset % sector
	whole := (begin + length + sector - 1) / sector * sector
	if buffer, err = Buffer(int(whole)); err != nil {
		return nil, 0, err
	}
	if _, err = d.ReadAt(buffer, offset-begin); err != nil {
		Free(buffer)
		return nil, 0, fmt.Errorf("%s cannot be read at byte %d: %w", d.Disk.Path, offset, err)
	}
	return buffer, begin, nil
}
