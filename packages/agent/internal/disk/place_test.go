package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// attached makes the folders of a disk below those of its controller, as sysfs has them, and returns the disk.
func attached(t *testing.T, name, device string, files map[string]string) Place {
	t.Helper()
	root := t.TempDir()
	hardware := filepath.Join(root, "devices", device)
	for file, content := range files {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return placeOf(filepath.Join(root, "block", name), hardware, filepath.Join(root, "slots"))
}

func TestPlaceOfADisk(t *testing.T) {
	for _, test := range []struct {
		name, device string
		files        map[string]string
		names        string
		controller   string
		slot         int
		hctl         string
	}{
		{"sda", "pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0",
			map[string]string{"devices/pci0000:00/0000:00:1f.2/ata3/ata_port/ata3/port_no": "3\n"},
			"pci-0000:00:1f.2-ata-3 pci-0000:00:1f.2-ata-3.0", "0000:00:1f.2", 3, "2:0:0:0"},
		{"sdb", "pci0000:3a/0000:3a:00.0/0000:3b:00.0/host4/target4:2:1/4:2:1:0",
			map[string]string{"devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/host4/x": ""},
			"pci-0000:3b:00.0-scsi-0:2:1:0", "0000:3b:00.0", 1, "4:2:1:0"},
		{"sdc", "pci0000:00/0000:03:00.0/host0/port-0:5/end_device-0:5/target0:0:5/0:0:5:0",
			map[string]string{
				"devices/pci0000:00/0000:03:00.0/host0/port-0:5/end_device-0:5/sas_device/end_device-0:5/phy_identifier": "5",
				"devices/pci0000:00/0000:03:00.0/host0/port-0:5/end_device-0:5/sas_device/end_device-0:5/sas_address":    "0x5000c500a1b2c3d5",
				"devices/pci0000:00/0000:03:00.0/host0/port-0:5/end_device-0:5/sas_device/end_device-0:5/bay_identifier": "11",
			},
			"pci-0000:03:00.0-sas-phy5-lun-0 pci-0000:03:00.0-sas-0x5000c500a1b2c3d5-lun-0", "0000:03:00.0", 11, "0:0:5:0"},
		{"nvme1n1", "pci0000:5d/0000:5d:02.0/0000:5e:00.0/nvme/nvme1",
			map[string]string{"block/nvme1n1/nsid": "1", "slots/23/address": "0000:5e:00\n"},
			"pci-0000:5e:00.0-nvme-1", "0000:5e:00.0", 23, ""},
		{"sdd", "pci0000:00/0000:03:00.0/host0/port-0:0/expander-0:0/port-0:0:7/end_device-0:0:7/target0:0:9/0:0:9:0",
			map[string]string{
				"devices/pci0000:00/0000:03:00.0/host0/port-0:0/expander-0:0/sas_device/expander-0:0/sas_address":                                    "0x500056b31234abff",
				"devices/pci0000:00/0000:03:00.0/host0/port-0:0/expander-0:0/port-0:0:7/end_device-0:0:7/sas_device/end_device-0:0:7/phy_identifier": "7",
				"devices/pci0000:00/0000:03:00.0/host0/port-0:0/expander-0:0/port-0:0:7/end_device-0:0:7/sas_device/end_device-0:0:7/sas_address":    "0x5000c500a1b2c3d9",
			},
			"pci-0000:03:00.0-sas-exp0x500056b31234abff-phy7-lun-0 pci-0000:03:00.0-sas-0x5000c500a1b2c3d9-lun-0", "0000:03:00.0", 7, "0:0:9:0"},
		{"nvme2n1", "pci0000:d0/0000:d0:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme2", nil,
			"pci-0000:d0:05.5-pci-10000:01:00.0-nvme-1", "10000:01:00.0", -1, ""},
		{"vda", "pci0000:00/0000:00:04.0/virtio1", nil, "pci-0000:00:04.0 virtio-pci-0000:00:04.0", "0000:00:04.0", -1, ""},
		{"mmcblk0", "platform/soc/mmc0/mmc0:0001", nil, "", "", -1, ""},
	} {
		place := attached(t, test.name, test.device, test.files)
		if strings.Join(place.Names, " ") != test.names || place.Controller != test.controller || place.Slot != test.slot || place.HCTL != test.hctl {
			t.Errorf("%s: got %+v", test.name, place)
		}
	}
}

func TestAnNVMeDiskOfSeveralPathsHasThePlaceOfItsFirst(t *testing.T) {
	root := t.TempDir()
	first := filepath.Join(root, "devices/pci0000:5d/0000:5e:00.0/nvme/nvme0")
	subsystem := filepath.Join(root, "devices/virtual/nvme-subsystem/nvme-subsys0")
	for _, folder := range []string{first, subsystem, filepath.Join(root, "block/nvme0n1"), filepath.Join(root, "class")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"block/nvme0n1/device": subsystem, "class/nvme0": first} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	block := filepath.Join(root, "block/nvme0n1")
	if place := placeOf(block, hardwareOf(block, filepath.Join(root, "class")), root); place.Controller != "0000:5e:00.0" {
		t.Errorf("got %+v", place)
	}
}
