package inventory

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// The tables of the firmware: SMBIOS specification 3.6.
const (
	smbiosPath   = "/sys/firmware/dmi/tables/DMI"
	smbiosHead   = 4
	typeBIOS     = 0
	typeSystem   = 1
	typeBoard    = 2
	typeChassis  = 3
	typeCPU      = 4
	typeMemory   = 17
	typeSupply   = 39
	typeEnd      = 127
	unknownSize  = 0xFFFF
	extendedSize = 0x7FFF
)

// structure is one table: its bytes, and the texts behind them.
type structure struct {
	kind byte
	data []byte
	text []string
}

func readSMBIOS() []structure {
	data, err := os.ReadFile(smbiosPath)
	if err != nil {
		return nil
	}
	return parseSMBIOS(data)
}

// parseSMBIOS ends at the first structure that does not fit: firmware with wrong lengths exists.
func parseSMBIOS(data []byte) []structure {
	var list []structure
	for len(data) >= smbiosHead {
		length := int(data[1])
		if length < smbiosHead || length > len(data) {
			return list
		}
		one := structure{kind: data[0], data: data[:length]}
		rest := data[length:]
		end := strings.Index(string(rest), "\x00\x00")
		if end < 0 {
			return list
		}
		if end > 0 {
			one.text = strings.Split(string(rest[:end]), "\x00")
		}
		list = append(list, one)
		if one.kind == typeEnd {
			return list
		}
		data = rest[end+2:]
	}
	return list
}

// fillers are texts that manufacturers leave in their firmware in place of a value.
var fillers = map[string]bool{
	"": true, "not specified": true, "to be filled by o.e.m.": true, "default string": true, "none": true, "n/a": true,
	"unknown": true, "not provided": true, "no dimm": true, "system serial number": true, "0123456789": true, "empty": true,
	"not available": true, "undefined": true, "system product name": true, "system manufacturer": true, "...": true,
}

// at returns the text whose number is at an offset, or nothing if it is a filler.
func (s structure) at(offset int) string {
	if offset >= len(s.data) {
		return ""
	}
	number := int(s.data[offset])
	if number == 0 || number > len(s.text) {
		return ""
	}
	text := strings.TrimSpace(s.text[number-1])
	if fillers[strings.ToLower(text)] {
		return ""
	}
	return text
}

func (s structure) word(offset int) uint64 {
	if offset+2 > len(s.data) {
		return 0
	}
	return uint64(binary.LittleEndian.Uint16(s.data[offset:]))
}

func (s structure) double(offset int) uint64 {
	if offset+4 > len(s.data) {
		return 0
	}
	return uint64(binary.LittleEndian.Uint32(s.data[offset:]))
}

// uuid has its first three parts in little-endian, since SMBIOS 2.6. All bytes 0 or 255: the machine has none.
func (s structure) uuid() string {
	if len(s.data) < 24 {
		return ""
	}
	raw := s.data[8:24]
	if bytes.Count(raw, []byte{0}) == len(raw) || bytes.Count(raw, []byte{0xFF}) == len(raw) {
		return ""
	}
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint16(raw[4:]),
		binary.LittleEndian.Uint16(raw[6:]), binary.BigEndian.Uint16(raw[8:]), raw[10:])
}

// memoryBytes is 0 for an empty slot.
func (s structure) memoryBytes() uint64 {
	size := s.word(12)
	switch {
	case size == 0 || size == unknownSize:
		return 0
	case size == extendedSize:
		return s.double(28) << 20
	case size&0x8000 != 0:
		return size & 0x7FFF << 10
	}
	return size << 20
}

var memoryTypes = map[byte]string{0x12: "DDR", 0x13: "DDR2", 0x18: "DDR3", 0x1A: "DDR4", 0x1E: "LPDDR4", 0x20: "HBM", 0x22: "DDR5", 0x23: "LPDDR5", 0x24: "HBM3", 0x07: "RAM"}

// compact leaves out members without a value.
func compact(members map[string]any) map[string]any {
	for name, value := range members {
		switch known := value.(type) {
		case string:
			if known == "" {
				delete(members, name)
			}
		case uint64:
			if known == 0 {
				delete(members, name)
			}
		}
	}
	return members
}

// fromSMBIOS adds what the firmware knows, in the terms of docs/drivers.md.
func fromSMBIOS(list []structure, into map[string]any) {
	var processors, modules, supplies, chassis []any
	for _, s := range list {
		number := func(of []any) string { return fmt.Sprint(len(of)) }
		switch s.kind {
		case typeBIOS:
			into["biosVersion"] = s.at(5)
		case typeSystem:
			into["manufacturer"], into["model"], into["serial"] = s.at(4), s.at(5), s.at(7)
			into["uuid"], into["partNumber"] = s.uuid(), s.at(25)
		case typeBoard:
			if into["board"] == nil {
				into["board"] = compact(map[string]any{"manufacturer": s.at(4), "model": s.at(5), "serial": s.at(7)})
			}
		case typeChassis:
			if text := s.at(8); text != "" && into["assetTag"] == nil {
				into["assetTag"] = text
			}
			chassis = append(chassis, compact(map[string]any{"id": number(chassis), "manufacturer": s.at(4), "serial": s.at(7)}))
		case typeCPU:
			if processor := processorOf(s); processor != nil {
				processor["id"] = number(processors)
				processors = append(processors, processor)
			}
		case typeMemory:
			if s.memoryBytes() > 0 {
				modules = append(modules, compact(map[string]any{
					"id": number(modules), "slot": s.at(16), "sizeBytes": s.memoryBytes(), "type": memoryTypes[s.data[18]], "speedMHz": s.word(21),
					"manufacturer": s.at(23), "serial": s.at(24), "partNumber": s.at(26),
				}))
			}
		case typeSupply:
			supplies = append(supplies, compact(map[string]any{
				"id": number(supplies), "name": s.at(6), "manufacturer": s.at(7), "serial": s.at(8), "partNumber": s.at(10), "firmwareVersion": s.at(11),
			}))
		}
	}
	for name, value := range map[string][]any{"processors": processors, "memoryModules": modules, "powerSupplies": supplies, "chassis": chassis} {
		if len(value) > 0 {
			into[name] = value
		}
	}
	compact(into)
}

// processorOf returns nil for an empty socket.
func processorOf(s structure) map[string]any {
	const populated = 0x40
	if len(s.data) > 24 && s.data[24]&populated == 0 {
		return nil
	}
	cores, threads := uint64(0), uint64(0)
	if len(s.data) > 37 {
		cores, threads = uint64(s.data[35]), uint64(s.data[37])
	}
	// More than 254 do not fit into a byte.
	if len(s.data) >= 48 && cores == 255 {
		cores = s.word(42)
	}
	if len(s.data) >= 48 && threads == 255 {
		threads = s.word(46)
	}
	return compact(map[string]any{"manufacturer": s.at(7), "model": s.at(16), "cores": cores, "threads": threads, "speedMHz": s.word(20)})
}
