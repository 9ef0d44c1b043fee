package configure

import (
	"encoding/binary"
	"fmt"
	"unicode/utf16"

	"ostler-agent/internal/task"
)

// The seed is a FAT16 file system that is written as a whole: nothing is mounted, and no driver is needed.
const (
	fatRootEntries = 512
	fatEntryBytes  = 32
	fatCopies      = 2
	fatEnd         = 0xFFFF
	fatFirst       = 2
	longNameUnits  = 13
	attrLabel      = 0x08
	attrArchive    = 0x20
	attrLongName   = 0x0F
)

type file struct {
	name, short string
	content     []byte
}

// geometry of the seed. FAT16 needs at least 4085 clusters, and Linux mounts no sectors smaller than the disk's.
type geometry struct {
	sector, cluster, bytes uint64
}

func seedGeometry(sector uint64) geometry {
	if sector <= 512 {
		return geometry{512, 1024, 8 << 20}
	}
	return geometry{sector, sector, 8192 * sector}
}

func (g geometry) sectors() uint64 { return g.bytes / g.sector }

// fatSectors is the length of one table.
func (g geometry) fatSectors() uint64 {
	return (g.bytes/g.cluster*2 + g.sector - 1) / g.sector
}

func (g geometry) rootSector() uint64 { return 1 + fatCopies*g.fatSectors() }

func (g geometry) dataStart() uint64 {
	return g.rootSector()*g.sector + fatRootEntries*fatEntryBytes
}

// fatImage returns the bytes of the file system.
func fatImage(g geometry, files []file) ([]byte, error) {
	image := make([]byte, g.bytes)
	bootSector(g, image)
	table := make([]byte, g.fatSectors()*g.sector)
	binary.LittleEndian.PutUint16(table[0:], 0xFFF8)
	binary.LittleEndian.PutUint16(table[2:], fatEnd)
	root := image[g.rootSector()*g.sector : g.dataStart()]
	copy(root, directoryEntry(seedLabel+"     ", attrLabel, 0, 0))
	place, cluster := fatEntryBytes, uint64(fatFirst)
	for _, each := range files {
		first := uint64(0)
		count := (uint64(len(each.content)) + g.cluster - 1) / g.cluster
		offset := g.dataStart() + (cluster-fatFirst)*g.cluster
		if offset+count*g.cluster > g.bytes {
			return nil, task.Fail(PartitionsUnusable, "The seed has room for %d bytes, and its files need more.", g.bytes-g.dataStart())
		}
		if count > 0 {
			first = cluster
		}
		copy(image[offset:], each.content)
		for index := uint64(0); index < count; index++ {
			next := cluster + 1
			if index == count-1 {
				next = fatEnd
			}
			binary.LittleEndian.PutUint16(table[cluster*2:], uint16(next))
			cluster++
		}
		for _, entry := range append(longName(each.name, each.short), directoryEntry(each.short, attrArchive, first, len(each.content))) {
			copy(root[place:], entry)
			place += fatEntryBytes
		}
	}
	for number := uint64(0); number < fatCopies; number++ {
		copy(image[(1+number*g.fatSectors())*g.sector:], table)
	}
	return image, nil
}

func bootSector(g geometry, image []byte) {
	copy(image, []byte{0xEB, 0x3C, 0x90})
	copy(image[3:], "OSTLER  ")
	binary.LittleEndian.PutUint16(image[11:], uint16(g.sector))
	image[13] = byte(g.cluster / g.sector)
	binary.LittleEndian.PutUint16(image[14:], 1)
	image[16] = fatCopies
	binary.LittleEndian.PutUint16(image[17:], fatRootEntries)
	if g.sectors() < 1<<16 {
		binary.LittleEndian.PutUint16(image[19:], uint16(g.sectors()))
	} else {
		binary.LittleEndian.PutUint32(image[32:], uint32(g.sectors()))
	}
	image[21] = 0xF8
	binary.LittleEndian.PutUint16(image[22:], uint16(g.fatSectors()))
	binary.LittleEndian.PutUint16(image[24:], 32)
	binary.LittleEndian.PutUint16(image[26:], 64)
	image[36], image[38] = 0x80, 0x29
	copy(image[39:], "OSTL") // serial number
	copy(image[fatLabel:], fmt.Sprintf("%-11s%-8s", seedLabel, "FAT16"))
	image[510], image[511] = 0x55, 0xAA
}

func directoryEntry(name string, attribute byte, cluster uint64, size int) []byte {
	entry := make([]byte, fatEntryBytes)
	copy(entry, name)
	entry[11] = attribute
	// 1980-01-01, the first date that FAT has.
	for _, field := range []int{16, 18, 24} {
		binary.LittleEndian.PutUint16(entry[field:], 1<<5|1)
	}
	binary.LittleEndian.PutUint16(entry[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(entry[28:], uint32(size))
	return entry
}

// longName returns the entries before a file's own, last part of the name first.
func longName(name, short string) [][]byte {
	sum := byte(0)
	for _, character := range []byte(short) {
		sum = sum>>1 | sum<<7
		sum += character
	}
	units := utf16.Encode([]rune(name))
	parts := (len(units) + longNameUnits - 1) / longNameUnits
	var entries [][]byte
	for part := parts; part >= 1; part-- {
		entry := make([]byte, fatEntryBytes)
		entry[0], entry[11], entry[13] = byte(part), attrLongName, sum
		if part == parts {
			entry[0] |= 0x40
		}
		for index := 0; index < longNameUnits; index++ {
			unit, position := uint16(0xFFFF), (part-1)*longNameUnits+index
			if position < len(units) {
				unit = units[position]
			} else if position == len(units) {
				unit = 0
			}
			binary.LittleEndian.PutUint16(entry[longNameOffset(index):], unit)
		}
		entries = append(entries, entry)
	}
	return entries
}

func longNameOffset(index int) int {
	switch {
	case index < 5:
		return 1 + index*2
	case index < 11:
		return 14 + (index-5)*2
	}
	return 28 + (index-11)*2
}
