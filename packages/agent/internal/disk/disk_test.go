package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ostler-agent/internal/task"
)

// machine writes the files that the kernel shows of disks.
func machine(t *testing.T, disks map[string]map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, files := range disks {
		for file, content := range files {
			path := filepath.Join(root, "block", name, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(root, "block")
}

func sample(t *testing.T) []Disk {
	return listBelow(machine(t, map[string]map[string]string{
		"sda":     {"size": "2097152", "device/model": "MZ7LH960 \n", "device/vendor": "ATA     ", "device/vpd_pg80": "\x00\x80\x00\x04S3R1", "device/wwid": "naa.5002538e40a1b2c3\n", "queue/rotational": "0", "queue/logical_block_size": "512"},
		"sdb":     {"size": "4194304", "device/model": "ST4000NM", "device/vendor": "SEAGATE", "device/vpd_pg80": "\x00\x80\x00\x04Z1Z2", "device/wwid": "naa.5000c500a1b2c3d4", "queue/rotational": "1"},
		"sdc":     {"size": "4194304", "device/model": "ST4000NM", "device/vendor": "SEAGATE", "device/vpd_pg80": "\x00\x80\x00\x04Z1Z2", "device/wwid": "naa.5000c500a1b2c3d4", "queue/rotational": "1"},
		"nvme0n1": {"size": "8388608", "device/model": "KIOXIA CD6", "device/serial": "N1", "wwid": "eui.00000000000000018ce38e050029f2a1", "queue/rotational": "0"},
		"vda":     {"size": "65536", "serial": "V1", "device/vendor": "0x1af4", "queue/rotational": "1"},
		"sr0":     {"size": "65536", "device/model": "DVD"},
		"sdd":     {"size": "0", "device/model": "Virtual Floppy"},
		"sde":     {"size": "65536", "removable": "1", "device/model": "Stick"},
		"dm-0":    {"size": "65536"},
	}))
}

func TestListReadsKindsAndSerialsAndListsADiskOfTwoPathsOnce(t *testing.T) {
	var got []string
	for _, disk := range sample(t) {
		got = append(got, disk.Name+" "+disk.Kind+" "+disk.Serial)
	}
	want := "sda SSD S3R1, sdb HDD Z1Z2, vda VIRTUAL V1, nvme0n1 NVME N1"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s", strings.Join(got, ", "))
	}
}

func TestSelect(t *testing.T) {
	disks := sample(t)
	for _, test := range []struct {
		hints *Hints
		want  string
	}{
		{&Hints{Path: "/dev/vda"}, "vda"},
		{&Hints{Serial: "s3r1"}, "sda"},
		{&Hints{WWN: "0x5000C500A1B2C3D4"}, "sdb"},
		{&Hints{WWN: "50:02:53:8e:40:a1:b2:c3"}, "sda"},
		{&Hints{Model: "kioxia"}, "nvme0n1"},
		{&Hints{Kind: "HDD"}, "sdb"},
		{&Hints{MinimumBytes: 3 << 30}, "nvme0n1"},
		{&Hints{MaximumBytes: 1 << 30, Kind: "SSD"}, "sda"},
		{&Hints{Serial: "S3R1", Path: "/dev/vda"}, NotFound},
		{&Hints{Serial: "other"}, NotFound},
		{&Hints{MaximumBytes: 1 << 30}, Ambiguous},
		{nil, Ambiguous},
		{&Hints{}, Ambiguous},
	} {
		disk, err := Select(disks, test.hints)
		got := disk.Name
		if err != nil {
			got = err.(*task.Error).Code
			if !strings.Contains(err.Error(), "KIOXIA CD6") {
				t.Errorf("the error does not list the disks: %v", err)
			}
		}
		if got != test.want {
			t.Errorf("%v: got %s, want %s", test.hints, got, test.want)
		}
	}
}

func TestTheOnlyDiskNeedsNoHints(t *testing.T) {
	disk, err := Select(sample(t)[:1], nil)
	if err != nil || disk.Name != "sda" {
		t.Errorf("got %v, %v", disk, err)
	}
}
