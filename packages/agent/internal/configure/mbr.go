package configure

import (
	"encoding/binary"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

const (
	mbrBytes      = 512
	mbrSlots      = 4
	mbrTable      = 446
	mbrSlotBytes  = 16
	mbrProtective = 0xEE
	mbrSystem     = 0xEF
	mbrFAT        = 0x0C
	mbrSectorsMax = 1<<32 - 1
	// fatLabel is where FAT12 and FAT16 have their label.
	fatLabel = 43
)

func mbrSlot(block []byte, slot int) []byte {
	start := mbrTable + slot*mbrSlotBytes
	return block[start : start+mbrSlotBytes]
}

func mbrType(block []byte, slot int) byte { return mbrSlot(block, slot)[4] }

type mbr struct {
	block   []byte
	sectors uint64
	// seeds are the slots whose partition is a seed.
	seeds map[int]bool
}

func readMBR(device store, d disk.Disk, block []byte) (table, error) {
	m := &mbr{block: append([]byte(nil), block...), sectors: d.Bytes / d.SectorSize, seeds: map[int]bool{}}
	if m.sectors > mbrSectorsMax {
		m.sectors = mbrSectorsMax
	}
	for slot := 0; slot < mbrSlots; slot++ {
		if mbrType(block, slot) != mbrFAT {
			continue
		}
		start := uint64(binary.LittleEndian.Uint32(mbrSlot(block, slot)[8:])) * d.SectorSize
		boot, err := device.Load(int64(start), mbrBytes)
		if err == nil && string(boot[fatLabel:fatLabel+len(seedLabel)]) == seedLabel {
			m.seeds[slot] = true
		}
	}
	if len(m.partitions()) == 0 {
		return nil, task.Fail(PartitionsUnusable, "The partition table of %s is empty.", d)
	}
	return m, nil
}

func (m *mbr) kind() string { return "MBR" }

func (m *mbr) partitions() []partition {
	var list []partition
	for slot := 0; slot < mbrSlots; slot++ {
		entry := mbrSlot(m.block, slot)
		first, length := uint64(binary.LittleEndian.Uint32(entry[8:])), uint64(binary.LittleEndian.Uint32(entry[12:]))
		if entry[4] == 0 || length == 0 {
			continue
		}
		list = append(list, partition{
			number: slot + 1, first: first, last: first + length - 1, system: entry[4] == mbrSystem,
			extended: entry[4] == 0x05 || entry[4] == 0x0F || entry[4] == 0x85, seed: m.seeds[slot],
		})
	}
	return list
}

func (m *mbr) end() uint64 { return m.sectors }

func (m *mbr) removeSeed() {
	for slot := range m.seeds {
		copy(mbrSlot(m.block, slot), make([]byte, mbrSlotBytes))
	}
}

func (m *mbr) addSeed(first, last uint64) (int, error) {
	for slot := 0; slot < mbrSlots; slot++ {
		entry := mbrSlot(m.block, slot)
		if entry[4] != 0 {
			continue
		}
		// Addresses by cylinder are those of a partition beyond their range.
		copy(entry, []byte{0, 0xFE, 0xFF, 0xFF, mbrFAT, 0xFE, 0xFF, 0xFF})
		binary.LittleEndian.PutUint32(entry[8:], uint32(first))
		binary.LittleEndian.PutUint32(entry[12:], uint32(last-first+1))
		return slot + 1, nil
	}
	return 0, task.Fail(PartitionsUnusable, "The MBR has no free primary partition for the seed. Use an image with a GPT.")
}

func (m *mbr) setLast(number int, last uint64) {
	entry := mbrSlot(m.block, number-1)
	first := uint64(binary.LittleEndian.Uint32(entry[8:]))
	copy(entry[5:8], []byte{0xFE, 0xFF, 0xFF})
	binary.LittleEndian.PutUint32(entry[12:], uint32(last-first+1))
}

func (m *mbr) write(device store) error { return device.Store(0, m.block) }
