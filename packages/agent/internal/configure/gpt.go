package configure

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
	"unicode/utf16"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// Offsets in the header and in entries: UEFI specification, section 5.3.
const (
	gptSignature   = "EFI PART"
	gptMinHeader   = 92
	gptEntriesMax  = 1 << 20
	gptEntryName   = 56
	gptNameBytes   = 72
	protectiveSlot = 0
)

var (
	guidSystem = guid("C12A7328-F81F-11D2-BA4B-00A0C93EC93B")
	guidBasic  = guid("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7")
)

// guid returns the bytes of a GUID: its first three parts are little-endian.
func guid(text string) []byte {
	raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil {
		panic(err)
	}
	for _, swap := range [][2]int{{0, 3}, {1, 2}, {4, 5}, {6, 7}} {
		raw[swap[0]], raw[swap[1]] = raw[swap[1]], raw[swap[0]]
	}
	return raw
}

type gpt struct {
	sector     uint64
	sectors    uint64
	protective []byte
	header     []byte
	entries    []byte
	entrySize  int
}

func readGPT(device store, d disk.Disk, head []byte) (table, error) {
	header := head[d.SectorSize:]
	if string(header[:8]) != gptSignature {
		if d.SectorSize != 512 {
			return nil, task.Fail(PartitionsUnusable, "%s has sectors of %d bytes, and the image's partition table is for sectors of 512.", d, d.SectorSize)
		}
		return nil, task.Fail(PartitionsUnusable, "%s has no GPT header. The image is damaged, or for sectors of another size.", d)
	}
	size := binary.LittleEndian.Uint32(header[12:])
	count, entrySize := binary.LittleEndian.Uint32(header[80:]), binary.LittleEndian.Uint32(header[84:])
	if size < gptMinHeader || uint64(size) > d.SectorSize || headerSum(header[:size]) != binary.LittleEndian.Uint32(header[16:]) ||
		entrySize < 128 || uint64(count)*uint64(entrySize) > gptEntriesMax {
		return nil, task.Fail(PartitionsUnusable, "The GPT header of %s is damaged.", d)
	}
	entries, err := device.Load(int64(binary.LittleEndian.Uint64(header[72:])*d.SectorSize), int64(count)*int64(entrySize))
	if err != nil || crc32.ChecksumIEEE(entries) != binary.LittleEndian.Uint32(header[88:]) {
		return nil, task.Fail(PartitionsUnusable, "The GPT entries of %s are damaged.", d)
	}
	g := &gpt{
		sector: d.SectorSize, sectors: d.Bytes / d.SectorSize,
		protective: append([]byte(nil), head[:mbrBytes]...), header: append([]byte(nil), header[:size]...),
		entries: entries, entrySize: int(entrySize),
	}
	// The backup goes to the real end of the disk, and what is before it can be used.
	binary.LittleEndian.PutUint64(g.header[48:], g.sectors-1-g.entrySectors()-1)
	return g, nil
}

// headerSum is the checksum of a header whose own field counts as 0.
func headerSum(header []byte) uint32 {
	plain := append([]byte(nil), header...)
	binary.LittleEndian.PutUint32(plain[16:], 0)
	return crc32.ChecksumIEEE(plain)
}

func (g *gpt) kind() string { return "GPT" }

func (g *gpt) entrySectors() uint64 {
	return (uint64(len(g.entries)) + g.sector - 1) / g.sector
}

func (g *gpt) entry(number int) []byte {
	return g.entries[(number-1)*g.entrySize : number*g.entrySize]
}

func (g *gpt) count() int { return len(g.entries) / g.entrySize }

func used(entry []byte) bool { return !bytes.Equal(entry[:16], make([]byte, 16)) }

func encodedName(name string) []byte {
	out := make([]byte, gptNameBytes)
	for index, unit := range utf16.Encode([]rune(name)) {
		binary.LittleEndian.PutUint16(out[index*2:], unit)
	}
	return out
}

func isSeed(entry []byte) bool {
	return bytes.Equal(entry[gptEntryName:gptEntryName+gptNameBytes], encodedName(seedLabel))
}

func (g *gpt) partitions() []partition {
	var list []partition
	for number := 1; number <= g.count(); number++ {
		entry := g.entry(number)
		if !used(entry) {
			continue
		}
		list = append(list, partition{
			number: number,
			first:  binary.LittleEndian.Uint64(entry[32:]),
			last:   binary.LittleEndian.Uint64(entry[40:]),
			system: bytes.Equal(entry[:16], guidSystem),
			seed:   isSeed(entry),
		})
	}
	return list
}

func (g *gpt) end() uint64 { return binary.LittleEndian.Uint64(g.header[48:]) + 1 }

func (g *gpt) removeSeed() {
	for _, each := range g.partitions() {
		if each.seed {
			copy(g.entry(each.number), make([]byte, g.entrySize))
		}
	}
}

func (g *gpt) addSeed(first, last uint64) (int, error) {
	for number := 1; number <= g.count(); number++ {
		entry := g.entry(number)
		if used(entry) {
			continue
		}
		copy(entry, guidBasic)
		if _, err := rand.Read(entry[16:32]); err != nil {
			return 0, err
		}
		entry[16+7] = entry[16+7]&0x0F | 0x40 // version 4 of a UUID
		entry[16+8] = entry[16+8]&0x3F | 0x80
		binary.LittleEndian.PutUint64(entry[32:], first)
		binary.LittleEndian.PutUint64(entry[40:], last)
		copy(entry[gptEntryName:], encodedName(seedLabel))
		return number, nil
	}
	return 0, task.Fail(PartitionsUnusable, "The GPT has no free entry for the seed.")
}

func (g *gpt) setLast(number int, last uint64) {
	binary.LittleEndian.PutUint64(g.entry(number)[40:], last)
}

// write stores the backup first, so that one of the two is whole at any time.
func (g *gpt) write(device store) error {
	backupEntries := g.sectors - 1 - g.entrySectors()
	primaryEntries := binary.LittleEndian.Uint64(g.header[72:])
	for _, side := range []struct{ own, other, entries uint64 }{
		{g.sectors - 1, 1, backupEntries},
		{1, g.sectors - 1, primaryEntries},
	} {
		header := append([]byte(nil), g.header...)
		binary.LittleEndian.PutUint64(header[24:], side.own)
		binary.LittleEndian.PutUint64(header[32:], side.other)
		binary.LittleEndian.PutUint64(header[72:], side.entries)
		binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(g.entries))
		binary.LittleEndian.PutUint32(header[16:], headerSum(header))
		if err := device.Store(int64(side.entries*g.sector), g.entries); err != nil {
			return err
		}
		if err := device.Store(int64(side.own*g.sector), header); err != nil {
			return err
		}
	}
	return g.writeProtective(device)
}

// writeProtective: some firmware ignores a GPT whose protective entry does not cover the disk. A hybrid MBR stays.
func (g *gpt) writeProtective(device store) error {
	if mbrType(g.protective, protectiveSlot) != mbrProtective || mbrType(g.protective, protectiveSlot+1) != 0 {
		return nil
	}
	sectors := g.sectors - 1
	if sectors > mbrSectorsMax {
		sectors = mbrSectorsMax
	}
	binary.LittleEndian.PutUint32(mbrSlot(g.protective, protectiveSlot)[12:], uint32(sectors))
	return device.Store(0, g.protective)
}
