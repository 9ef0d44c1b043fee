package configure

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// memory is a disk.
type memory []byte

func (m memory) Load(offset, length int64) ([]byte, error) {
	return append([]byte(nil), m[offset:offset+length]...), nil
}

func (m memory) Store(offset int64, data []byte) error {
	copy(m[offset:], data)
	return nil
}

const mib = 1 << 20

func testDisk(m memory) disk.Disk {
	return disk.Disk{Name: "sda", Path: "/dev/sda", Bytes: uint64(len(m)), SectorSize: 512}
}

// gptImage is an image of 32 MiB at the beginning of a disk: an EFI system partition with number 15 first, root with
// number 1 last, as Debian's cloud images have them.
func gptImage(t *testing.T, size int) memory {
	t.Helper()
	image := make(memory, size)
	image[510], image[511] = 0x55, 0xAA
	mbrSlot(image, 0)[4] = mbrProtective
	binary.LittleEndian.PutUint32(mbrSlot(image, 0)[12:], 32*2048-1)
	entries := make([]byte, 128*128)
	put := func(number int, kind []byte, first, last uint64) {
		entry := entries[(number-1)*128:]
		copy(entry, kind)
		entry[16] = byte(number)
		binary.LittleEndian.PutUint64(entry[32:], first)
		binary.LittleEndian.PutUint64(entry[40:], last)
	}
	put(15, guidSystem, 2048, 4095)
	put(1, guid("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"), 4096, 32*2048-34)
	header := make([]byte, gptMinHeader)
	copy(header, gptSignature)
	binary.LittleEndian.PutUint32(header[8:], 0x10000)
	binary.LittleEndian.PutUint32(header[12:], gptMinHeader)
	binary.LittleEndian.PutUint64(header[24:], 1)
	binary.LittleEndian.PutUint64(header[32:], 32*2048-1)
	binary.LittleEndian.PutUint64(header[40:], 34)
	binary.LittleEndian.PutUint64(header[48:], 32*2048-34)
	binary.LittleEndian.PutUint64(header[72:], 2)
	binary.LittleEndian.PutUint32(header[80:], 128)
	binary.LittleEndian.PutUint32(header[84:], 128)
	binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(entries))
	binary.LittleEndian.PutUint32(header[16:], headerSum(header))
	copy(image[512:], header)
	copy(image[1024:], entries)
	return image
}

func text(value string) *string { return &value }

func seeded() request {
	return request{GrowLast: true, Seed: &seed{MetaData: text("instance-id: i1\n"), UserData: text("#cloud-config\n" + strings.Repeat("# long\n", 2000)), NetworkConfig: text("version: 2\n")}}
}

func changed(t *testing.T, m memory, wanted request) (table, layout) {
	t.Helper()
	d := testDisk(m)
	read, err := readTable(m, d)
	if err != nil {
		t.Fatal(err)
	}
	done, err := change(m, read, d, wanted)
	if err != nil {
		t.Fatal(err)
	}
	again, err := readTable(m, d)
	if err != nil {
		t.Fatal(err)
	}
	return again, done
}

func find(t *testing.T, list []partition, number int) partition {
	t.Helper()
	for _, each := range list {
		if each.number == number {
			return each
		}
	}
	t.Fatalf("no partition %d in %+v", number, list)
	return partition{}
}

// verifiedBySgdisk: another program judges the table, if it is installed.
func verifiedBySgdisk(t *testing.T, m memory) {
	t.Helper()
	if _, err := exec.LookPath("sgdisk"); err != nil {
		t.Log("sgdisk is not installed: the table is not judged by another program")
		return
	}
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, m, 0o600); err != nil {
		t.Fatal(err)
	}
	printed, err := exec.Command("sgdisk", "-v", path).CombinedOutput()
	if err != nil || !strings.Contains(string(printed), "No problems found") {
		t.Errorf("sgdisk: %v\n%s", err, printed)
	}
}

func TestSeedGoesBehindTheImageAndRootIsGrownUpToIt(t *testing.T) {
	m := gptImage(t, 200*mib)
	read, done := changed(t, m, seeded())
	seedPart, root := find(t, read.partitions(), done.seed.number), find(t, read.partitions(), 1)
	if !seedPart.seed || seedPart.last-seedPart.first+1 != 8*2048 || root.last != seedPart.first-1 || root.first != 4096 {
		t.Errorf("seed %+v, root %+v", seedPart, root)
	}
	if find(t, read.partitions(), 15).last != 4095 {
		t.Error("another partition has changed")
	}
	if backup := m[len(m)-512:]; string(backup[:8]) != gptSignature || headerSum(backup[:gptMinHeader]) != binary.LittleEndian.Uint32(backup[16:]) {
		t.Error("no backup at the end")
	}
	verifiedBySgdisk(t, m)
}

func TestSecondConfigurationReplacesTheSeed(t *testing.T) {
	m := gptImage(t, 200*mib)
	_, first := changed(t, m, seeded())
	read, second := changed(t, m, seeded())
	if first.seed.first != second.seed.first || len(read.partitions()) != 3 {
		t.Errorf("first %+v, second %+v, %d partitions", first, second, len(read.partitions()))
	}
	verifiedBySgdisk(t, m)
}

func TestGrowthWithoutASeedFillsTheDisk(t *testing.T) {
	m := gptImage(t, 200*mib)
	read, _ := changed(t, m, request{GrowLast: true})
	if root := find(t, read.partitions(), 1); root.last != 199*2048-1 {
		t.Errorf("root %+v", root)
	}
	verifiedBySgdisk(t, m)
}

func TestImageThatFillsTheDiskHasNoRoomForASeed(t *testing.T) {
	m := gptImage(t, 32*mib)
	read, err := readTable(m, testDisk(m))
	if err != nil {
		t.Fatal(err)
	}
	before := append(memory(nil), m...)
	_, err = change(m, read, testDisk(m), seeded())
	if known, ok := err.(*task.Error); !ok || known.Code != PartitionsUnusable || !bytes.Equal(before, m) {
		t.Errorf("got %v", err)
	}
}

func mbrImage(kinds ...byte) memory {
	m := make(memory, 100*mib)
	m[510], m[511] = 0x55, 0xAA
	for slot, kind := range kinds {
		entry := mbrSlot(m, slot)
		entry[4] = kind
		binary.LittleEndian.PutUint32(entry[8:], uint32(2048*(1+4*slot)))
		binary.LittleEndian.PutUint32(entry[12:], 4*2048)
	}
	return m
}

func TestMBRImage(t *testing.T) {
	m := mbrImage(0x0C, 0x83)
	for round := 0; round < 2; round++ {
		read, done := changed(t, m, seeded())
		root := find(t, read.partitions(), 2)
		if done.seed.number != 3 || root.last != done.seed.first-1 || !find(t, read.partitions(), 3).seed {
			t.Errorf("round %d: %+v, root %+v", round, done, root)
		}
	}
}

func TestMBRWithoutAFreeSlotOrWithLogicalPartitions(t *testing.T) {
	m := mbrImage(0x83, 0x83, 0x83, 0x83)
	read, _ := readTable(m, testDisk(m))
	if _, err := change(m, read, testDisk(m), seeded()); err == nil {
		t.Error("a fifth primary partition was made")
	}
	m = mbrImage(0x83, 0x05)
	if _, done := changed(t, m, seeded()); done.note == "" || done.seed.number != 3 {
		t.Errorf("got %+v", done)
	}
}

func TestDiskWithoutATable(t *testing.T) {
	for name, m := range map[string]memory{"empty": make(memory, mib), "no partitions": mbrImage()} {
		if _, err := readTable(m, testDisk(m)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	m := gptImage(t, 64*mib)
	m[600] ^= 1
	if _, err := readTable(m, testDisk(m)); err != nil {
		t.Logf("a byte behind the header does not matter")
	}
	m[540] ^= 1
	if _, err := readTable(m, testDisk(m)); err == nil {
		t.Error("a damaged header was accepted")
	}
}

func TestSeedIsAFileSystemWithTheTexts(t *testing.T) {
	for _, sector := range []uint64{512, 4096} {
		content, err := fatImage(seedGeometry(sector), seeded().Seed.files())
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "seed")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := exec.LookPath("fsck.vfat"); err == nil {
			if printed, err := exec.Command("fsck.vfat", "-n", path).CombinedOutput(); err != nil {
				t.Errorf("sector %d: fsck.vfat: %v\n%s", sector, err, printed)
			}
		}
		if _, err := exec.LookPath("mtype"); err != nil {
			t.Skip("mtools is not installed")
		}
		for name, want := range map[string]string{"meta-data": "instance-id: i1\n", "network-config": "version: 2\n", "user-data": *seeded().Seed.UserData} {
			got, err := exec.Command("mtype", "-i", path, "::"+name).Output()
			if err != nil || string(got) != want {
				t.Errorf("sector %d, %s: got %d bytes, %v", sector, name, len(got), err)
			}
		}
	}
}

func TestSeedThatIsTooLarge(t *testing.T) {
	if _, err := fatImage(seedGeometry(512), []file{{"user-data", "USER-D~1   ", make([]byte, 9*mib)}}); err == nil {
		t.Error("no error")
	}
}

const listed = "BootCurrent: 0001\nTimeout: 3 seconds\nBootOrder: 0004,0001,0000\nBoot0000* UiApp\tFvVol(7cb8)/FvFile(462c)\n" +
	"Boot0001* Ostler\tHD(15,GPT,aa,0x800,0x800)/File(\\EFI\\BOOT\\BOOTX64.EFI)\nBoot0004* Ostler\nBoot00AF  Ostler two\tPci\n"

func TestBootEntries(t *testing.T) {
	if got := strings.Join(bootEntries(listed, bootLabel), " "); got != "0001 0004" {
		t.Errorf("got %s", got)
	}
}

func TestFirmwareThatRefusesTheNextStartFailsOnlyWithSeveralDisks(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	for _, test := range []struct {
		status string
		disks  int
		note   bool
		fails  bool
	}{{"0", 2, false, false}, {"5", 1, true, false}, {"5", 2, false, true}} {
		_ = os.WriteFile(filepath.Join(folder, "efibootmgr"), []byte("#!/bin/sh\nexit "+test.status+"\n"), 0o755)
		note, err := startNext(context.Background(), "0004", test.disks)
		if (note != "") != test.note || (err != nil) != test.fails {
			t.Errorf("%+v: got %q, %v", test, note, err)
		}
	}
}

func TestLoader(t *testing.T) {
	root := t.TempDir()
	if _, err := loaderBelow(root, "amd64"); err == nil {
		t.Error("no error")
	}
	for _, name := range []string{"EFI/debian/shimx64.efi", "EFI/debian/grubx64.efi"} {
		path := filepath.Join(root, name)
		_ = os.MkdirAll(filepath.Dir(path), 0o755)
		_ = os.WriteFile(path, nil, 0o644)
	}
	if got, _ := loaderBelow(root, "amd64"); got != `\EFI\debian\shimx64.efi` {
		t.Errorf("got %s", got)
	}
	_ = os.MkdirAll(filepath.Join(root, "EFI/BOOT"), 0o755)
	_ = os.WriteFile(filepath.Join(root, "EFI/BOOT/BOOTX64.EFI"), nil, 0o644)
	if got, _ := loaderBelow(root, "amd64"); got != `\EFI\BOOT\BOOTX64.EFI` {
		t.Errorf("got %s", got)
	}
	if _, err := loaderBelow(root, "arm64"); err == nil {
		t.Error("a boot loader of another architecture was taken")
	}
}

func TestDevicePath(t *testing.T) {
	for name, want := range map[string]string{"sda": "/dev/sda2", "nvme0n1": "/dev/nvme0n1p2", "mmcblk0": "/dev/mmcblk0p2"} {
		if got := devicePath(disk.Disk{Name: name, Path: "/dev/" + name}, 2); got != want {
			t.Errorf("got %s", got)
		}
	}
}
