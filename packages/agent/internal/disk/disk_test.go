package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"sdd":     {"size": "0", "device/model": "Card Reader"},
		"sde":     {"size": "65536", "device/vendor": "AMI     ", "device/model": "Virtual Floppy0 "},
		"dm-0":    {"size": "65536"},
	}))
}

func TestListReadsKindsAndSerialsAndListsADiskOfTwoPathsOnce(t *testing.T) {
	var got []string
	for _, disk := range builtIn(sample(t)) {
		got = append(got, disk.Name+" "+disk.Kind+" "+disk.Serial)
	}
	want := "sda SSD S3R1, sdb HDD Z1Z2, vda VIRTUAL V1, nvme0n1 NVME N1"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s", strings.Join(got, ", "))
	}
}

func TestAnErrorOfTheSelectionListsTheDisks(t *testing.T) {
	disks := installable(builtIn(sample(t)))
	for _, hints := range []*Hints{{Serial: "other"}, {MaximumBytes: 1 << 30}} {
		if _, err := Select(disks, hints); err == nil || !strings.Contains(err.Error(), "KIOXIA CD6") {
			t.Errorf("%v: got %v", hints, err)
		}
	}
}

func TestTheOnlyDiskNeedsNoHints(t *testing.T) {
	disk, err := Select(sample(t)[:1], nil)
	if err != nil || disk.Name != "sda" {
		t.Errorf("got %v, %v", disk, err)
	}
}

func TestEveryBlockDeviceWithASizeIsListed(t *testing.T) {
	root := machine(t, map[string]map[string]string{
		"sda":          {"size": "2097152", "ro": "1", "device/model": "WORN SSD", "device/serial": "WORN"},
		"sdb":          {"size": "2097152", "removable": "1", "device/vendor": "ATA", "device/model": "External AHCI port"},
		"sdc":          {"size": "2097152", "device/model": "One path", "device/serial": "P", "device/wwid": "naa.5000000000000003"},
		"sdd":          {"size": "2097152", "device/model": "Two paths", "device/serial": "P", "device/wwid": "naa.5000000000000003"},
		"sde":          {"size": "0", "removable": "1", "device/model": "Card reader"},
		"vda":          {"size": "2097152"},
		"sr0":          {"size": "2097151", "removable": "1", "device/model": "DVD"},
		"loop0":        {"size": "2097152"},
		"md0":          {"size": "2097152"},
		"nvme0c0n1":    {"size": "2097152", "hidden": "1"},
		"mmcblk0":      {"size": "2097152", "device/name": "eMMC", "device/type": "MMC"},
		"mmcblk1":      {"size": "2097152", "device/name": "SD card", "device/type": "SD"},
		"mmcblk0boot0": {"size": "8192", "ro": "1"},
		"mmcblk0boot1": {"size": "8192"},
		"mmcblk0rpmb":  {"size": "8192"},
	})
	names := func(disks []Disk) string {
		var list []string
		for _, disk := range disks {
			list = append(list, disk.Name)
		}
		return strings.Join(list, " ")
	}
	all := listBelow(root)
	if got := names(all); got != "sda sdb sdc sdd sr0 vda mmcblk0 mmcblk1" {
		t.Errorf("got %s", got)
	}
	if got := names(builtIn(all)); got != "sda sdb sdc vda mmcblk0 mmcblk1" {
		t.Errorf("disks of the machine: got %s", got)
	}
	if got := names(installable(builtIn(all))); got != "sdb sdc vda mmcblk0" {
		t.Errorf("disks for a system: got %s", got)
	}
	if !all[0].ReadOnly || all[1].ReadOnly {
		t.Error("what is read-only is not known")
	}
}

func TestDisksOfUSBAreListedAndNoTargetOfASystem(t *testing.T) {
	root := machine(t, map[string]map[string]string{
		"sda": {"size": "2097152"},
	})
	hardware := filepath.Join(filepath.Dir(root), "pci0000:00", "usb1", "1-1", "target6:0:0")
	if err := os.MkdirAll(hardware, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(hardware, filepath.Join(root, "sda", "device")); err != nil {
		t.Fatal(err)
	}
	all := listBelow(root)
	if len(all) != 1 || !all[0].USB || all[0].Medium || len(builtIn(all)) != 0 {
		t.Errorf("got %+v", all)
	}
}

func TestMediaOfTheBMCAreRecognized(t *testing.T) {
	for _, test := range []struct {
		vendor, model string
		medium        bool
	}{
		{"AMI", "Virtual CDROM0", true},
		{"AMI", "Virtual HDISK0", true},
		{"iDRAC", "Virtual CD", true},
		{"iDRAC", "LCDRIVE", true},
		{"HPE", "iLO Virtual USB", true},
		{"HP iLO", "Internal SD-CARD", false},
		{"Lenovo", "Virtual CDROM", true},
		{"IPMI", "Virtual Floppy", true},
		{"ATEN", "Virtual CDROM YS0J", true},
		{"Linux", "File-Stor Gadget", true},
		{"VMware", "Virtual disk", false},
		{"Msft", "Virtual Disk", false},
		{"QEMU", "QEMU HARDDISK", false},
		{"DELL", "Internal Dual SD", false},
		{"SanDisk", "Ultra Fit", false},
		{"LENOVO", "SAS3 400GB", false},
	} {
		disks := listBelow(machine(t, map[string]map[string]string{
			"sda": {"size": "2097152", "device/vendor": test.vendor, "device/model": test.model},
		}))
		if len(disks) != 1 || disks[0].Medium != test.medium {
			t.Errorf("%s %s: got %+v", test.vendor, test.model, disks)
		}
	}
}

func TestControllersWithoutADriverAreNamed(t *testing.T) {
	blocks := machine(t, map[string]map[string]string{"sr0": {"size": "2097151"}, "loop0": {"size": "8"}})
	devices := machine(t, map[string]map[string]string{
		"0000:00:1f.2": {"class": "0x010601", "vendor": "0x8086", "device": "0x2922", "driver/name": "ahci"},
		"0000:03:00.0": {"class": "0x010400", "vendor": "0x1000", "device": "0x10e2"},
		"0000:04:00.0": {"class": "0x020000", "vendor": "0x8086", "device": "0x1521"},
	})
	want := "The kernel shows the block devices: sr0. Storage controllers without a driver: 0000:03:00.0 (1000:10e2)."
	if got := visibleBelow(blocks, devices); got != want {
		t.Errorf("got %s", got)
	}
}
