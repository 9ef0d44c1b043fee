package erase

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"ostler-agent/internal/disk"
)

// Commands and ioctl numbers: NVM Express Base Specification 1.4, linux/nvme_ioctl.h.
const (
	ioctlID    = 0x4E40
	ioctlAdmin = 0xC0484E41

	opGetLog   = 0x02
	opIdentify = 0x06
	opFormat   = 0x80
	opSanitize = 0x84

	identifyBytes = 4096
	logSanitize   = 0x81
	logBytes      = 512
	allNamespaces = 0xFFFFFFFF

	sanitizeBlock  = 2
	sanitizeCrypto = 4

	eraseUser   = 1
	eraseCrypto = 2

	formatTimeout = 6 * time.Hour
	adminTimeout  = time.Minute
	sanitizePoll  = time.Second
	// sanitizeMisses is how often in a row the progress may not be readable.
	sanitizeMisses = 300
)

// adminCommand is struct nvme_passthru_cmd.
type adminCommand struct {
	opcode, flags uint8
	_             uint16
	nsid          uint32
	_, _          uint32
	_             uint64
	address       uint64
	_             uint32
	length        uint32
	cdw10, cdw11  uint32
	_, _, _, _    uint32
	timeoutMs     uint32
	result        uint32
}

// controller is what Identify Controller says about erasing.
type controller struct {
	// format: Format NVM is supported; formatsAll: it erases every namespace, not the one that it names.
	format, formatsAll, cryptoFormat bool
	sanitizesBlock, sanitizesCrypto  bool
}

// parseController reads the data of Identify Controller.
func parseController(data []byte) controller {
	oacs := binary.LittleEndian.Uint16(data[256:])
	sanicap := binary.LittleEndian.Uint32(data[328:])
	fna := data[524]
	return controller{
		format:          oacs&(1<<1) != 0,
		formatsAll:      fna&0b11 != 0,
		cryptoFormat:    fna&(1<<2) != 0,
		sanitizesCrypto: sanicap&(1<<0) != 0,
		sanitizesBlock:  sanicap&(1<<1) != 0,
	}
}

// sanitize returns the action of the command Sanitize, 0 if there is none.
func (c controller) sanitize() uint32 {
	switch {
	case c.sanitizesBlock:
		return sanitizeBlock
	case c.sanitizesCrypto:
		return sanitizeCrypto
	}
	return 0
}

// formatWord keeps the block size and the protection of the namespace, which Format NVM would change. The argument is
// the data of Identify Namespace.
func formatWord(namespace []byte, erase uint32) uint32 {
	flbas, dps := uint32(namespace[26]), uint32(namespace[29])
	return flbas&0xF | flbas&0x10 | (dps&0b111)<<5 | (dps>>3&1)<<8 | erase<<9 | (flbas>>5&0b11)<<12
}

// parseSanitizeLog returns whether a sanitize operation is still running, how far it is, and whether it has failed.
func parseSanitizeLog(data []byte) (running bool, percent int, failed bool) {
	status := binary.LittleEndian.Uint16(data[2:]) & 0b111
	return status == 2, int(binary.LittleEndian.Uint16(data)) * 100 / 65536, status == 3
}

type nvmeDevice struct {
	file *os.File
	nsid uint32
}

func openNVMe(d disk.Disk) (*nvmeDevice, error) {
	file, err := os.OpenFile(d.Path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	nsid, _, number := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), ioctlID, 0)
	if number != 0 {
		file.Close()
		return nil, fmt.Errorf("%s has no namespace ID: %w", d.Path, number)
	}
	return &nvmeDevice{file, uint32(nsid)}, nil
}

func (n *nvmeDevice) admin(command adminCommand, data []byte, timeout time.Duration) error {
	if len(data) > 0 {
		// The kernel is given an address: it must not be one that Go moves.
		page, err := disk.Buffer(len(data))
		if err != nil {
			return err
		}
		defer disk.Free(page)
		command.address, command.length = uint64(uintptr(unsafe.Pointer(&page[0]))), uint32(len(page))
		defer func() { copy(data, page) }()
	}
	command.timeoutMs = uint32(timeout / time.Millisecond)
	status, _, number := syscall.Syscall(syscall.SYS_IOCTL, n.file.Fd(), ioctlAdmin, uintptr(unsafe.Pointer(&command)))
	if number != 0 {
		return number
	}
	if status != 0 {
		return fmt.Errorf("the drive refused with NVMe status 0x%x", status)
	}
	return nil
}

func (n *nvmeDevice) identify(nsid, what uint32) ([]byte, error) {
	data := make([]byte, identifyBytes)
	return data, n.admin(adminCommand{opcode: opIdentify, nsid: nsid, cdw10: what}, data, adminTimeout)
}

// readController is also used to see whether the disk answers at all.
func readController(d disk.Disk) (*controller, error) {
	device, err := openNVMe(d)
	if err != nil {
		return nil, err
	}
	defer device.file.Close()
	data, err := device.identify(0, 1)
	if err != nil {
		return nil, err
	}
	parsed := parseController(data)
	return &parsed, nil
}

func nvmeFormat(d disk.Disk, found controller) error {
	device, err := openNVMe(d)
	if err != nil {
		return err
	}
	defer device.file.Close()
	namespace, err := device.identify(device.nsid, 0)
	if err != nil {
		return err
	}
	erase := uint32(eraseUser)
	if found.cryptoFormat {
		erase = eraseCrypto
	}
	return device.admin(adminCommand{opcode: opFormat, nsid: device.nsid, cdw10: formatWord(namespace, erase)}, nil, formatTimeout)
}

func nvmeSanitize(ctx context.Context, d disk.Disk, found controller, progress func(percent int)) error {
	device, err := openNVMe(d)
	if err != nil {
		return err
	}
	defer device.file.Close()
	if err := device.admin(adminCommand{opcode: opSanitize, cdw10: found.sanitize()}, nil, adminTimeout); err != nil {
		return err
	}
	for misses := 0; ; {
		data := make([]byte, logBytes)
		command := adminCommand{opcode: opGetLog, nsid: allNamespaces, cdw10: logSanitize | (logBytes/4-1)<<16}
		if err := device.admin(command, data, adminTimeout); err != nil {
			// The drive goes on without an answer: a failure here would be taken for its end.
			if misses++; misses > sanitizeMisses {
				return err
			}
		} else {
			running, percent, failed := parseSanitizeLog(data)
			if failed {
				return fmt.Errorf("the drive reports that its sanitize operation failed")
			}
			if !running {
				return nil
			}
			misses = 0
			progress(percent)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sanitizePoll):
		}
	}
}

// deviceOf is the part of a name that all namespaces of an NVMe device share: nvme0 of nvme0n1.
func deviceOf(name string) string {
	if index := strings.LastIndex(name, "n"); strings.HasPrefix(name, "nvme") && index > 0 {
		return name[:index]
	}
	return name
}
