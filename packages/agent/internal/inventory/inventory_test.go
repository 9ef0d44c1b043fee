package inventory

import (
	"encoding/json"
	"testing"
)

// table makes a structure of SMBIOS.
func table(kind byte, length int, bytes map[int]byte, texts ...string) []byte {
	data := make([]byte, length)
	data[0], data[1] = kind, byte(length)
	for offset, value := range bytes {
		data[offset] = value
	}
	for _, text := range texts {
		data = append(append(data, text...), 0)
	}
	if len(texts) == 0 {
		data = append(data, 0)
	}
	return append(data, 0)
}

func TestSMBIOS(t *testing.T) {
	var data []byte
	data = append(data, table(0, 24, map[int]byte{5: 1}, "2.17")...)
	data = append(data, table(1, 27, map[int]byte{4: 1, 5: 2, 7: 3, 8: 0x33, 9: 0x22, 10: 0x11, 11: 0x00, 23: 0xDE}, "Lab Works", "LW-1000", "LWS7")...)
	data = append(data, table(3, 22, map[int]byte{4: 1, 8: 2}, "Lab Works", "To Be Filled By O.E.M.")...)
	data = append(data, table(4, 48, map[int]byte{7: 1, 16: 2, 20: 0xB8, 21: 0x0B, 24: 0x41, 35: 16, 37: 32}, "Intel", "Xeon Gold")...)
	data = append(data, table(4, 48, map[int]byte{24: 0})...)
	data = append(data, table(17, 40, map[int]byte{12: 0xFF, 13: 0x7F, 16: 1, 18: 0x22, 21: 0xC0, 22: 0x12, 24: 2, 29: 0x80}, "DIMM A1", "M1")...)
	data = append(data, table(17, 40, nil)...)
	data = append(data, table(127, 4, nil)...)
	machine := map[string]any{}
	fromSMBIOS(parseSMBIOS(data), machine)
	got, _ := json.Marshal(machine)
	want := `{"biosVersion":"2.17","chassis":[{"id":"0","manufacturer":"Lab Works"}],"manufacturer":"Lab Works",` +
		`"memoryModules":[{"id":"0","serial":"M1","sizeBytes":34359738368,"slot":"DIMM A1","speedMHz":4800,"type":"DDR5"}],"model":"LW-1000",` +
		`"processors":[{"cores":16,"id":"0","manufacturer":"Intel","model":"Xeon Gold","speedMHz":3000,"threads":32}],"serial":"LWS7",` +
		`"uuid":"00112233-0000-0000-0000-0000000000de"}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for length := range data {
		fromSMBIOS(parseSMBIOS(data[:length]), map[string]any{})
	}
}

func TestMachineWithoutAUUID(t *testing.T) {
	machine := map[string]any{}
	fromSMBIOS(parseSMBIOS(table(1, 27, map[int]byte{4: 1}, "Lab Works")), machine)
	if machine["uuid"] != nil || machine["manufacturer"] != "Lab Works" {
		t.Errorf("got %v", machine)
	}
}

func TestHealth(t *testing.T) {
	for text, want := range map[string][2]bool{
		`{"smart_status":{"passed":true}}`:  {true, true},
		`{"smart_status":{"passed":false}}`: {false, true},
		`{"smartctl":{"exit_status":2}}`:    {false, false},
		``:                                  {false, false},
	} {
		if passed, known := parseHealth([]byte(text)); passed != want[0] || known != want[1] {
			t.Errorf("%s: got %v %v", text, passed, known)
		}
	}
}

func TestMemory(t *testing.T) {
	if got := memoryBytes("MemTotal:       16316412 kB\nMemFree: 1 kB\n"); got != 16316412<<10 {
		t.Errorf("got %d", got)
	}
}

func TestLANParameter(t *testing.T) {
	if got, err := parseLAN([]byte{0, 0x11, 10, 0, 0, 9}); err != nil || string(got) != "\x0a\x00\x00\x09" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseLAN([]byte{0xCC}); err == nil {
		t.Error("no error")
	}
}
