package disk

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"ostler-agent/internal/task"
)

// view is a disk as the inventory reports it.
type view struct {
	Name, Kind, Protocol, Manufacturer, Model, Serial, WWN, Controller, HCTL string
	SizeBytes                                                                uint64
	Rotational, Removable, ReadOnly                                          bool
	Paths                                                                    []string
	Slot                                                                     *int
}

func (v view) disk() Disk {
	place := Place{Slot: -1, Controller: v.Controller, HCTL: v.HCTL}
	if v.Slot != nil {
		place.Slot = *v.Slot
	}
	for _, path := range v.Paths {
		place.Names = append(place.Names, strings.TrimPrefix(path, byPath))
	}
	return Disk{
		Name: strings.TrimPrefix(v.Name, "/dev/"), Path: v.Name, Kind: v.Kind, Protocol: v.Protocol, Vendor: v.Manufacturer,
		Model: v.Model, Serial: v.Serial, WWN: v.WWN, Bytes: v.SizeBytes, Rotational: v.Rotational, Removable: v.Removable,
		ReadOnly: v.ReadOnly, Place: place,
	}
}

// The table is that of test/lifecycle/root-disk.test.ts too: the service and the agent choose the same disk.
func TestSelect(t *testing.T) {
	var table struct {
		Disks map[string]json.RawMessage
		Cases []struct {
			Title string
			Disks []string
			Hints *Hints
			Root  string
		}
	}
	text, err := os.ReadFile("testdata/root-disk.json")
	if err == nil {
		err = json.Unmarshal(text, &table)
	}
	if err != nil || len(table.Cases) < 30 {
		t.Fatalf("%d cases, %v", len(table.Cases), err)
	}
	disks := map[string]Disk{}
	for name, raw := range table.Disks {
		var given view
		var members, shown map[string]any
		_ = json.Unmarshal(raw, &given)
		_ = json.Unmarshal(raw, &members)
		disks[name] = given.disk()
		text, _ := json.Marshal(disks[name].View())
		_ = json.Unmarshal(text, &shown)
		if !reflect.DeepEqual(shown, members) {
			t.Errorf("%s: the inventory has %v, and the table %v", name, shown, members)
		}
	}
	for _, test := range table.Cases {
		var given []Disk
		for _, name := range test.Disks {
			given = append(given, disks[name])
		}
		found, err := Select(installable(given), test.Hints)
		got := found.Path
		if err != nil {
			got = err.(*task.Error).Code
		}
		want := test.Root
		if disk, ok := disks[want]; ok {
			want = disk.Path
		}
		if got != want {
			t.Errorf("%s: got %s, want %s (%v)", test.Title, got, want, err)
		}
	}
}
