package erase

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"ostler-agent/internal/disk"
)

const frozenDrive = "/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       MZ7LH960\n" +
	"Security: \n\tMaster password revision code = 65534\n\t\tsupported\n\tnot\tenabled\n\tnot\tlocked\n\t\tfrozen\n" +
	"\tnot\texpired: security count\n\t\tsupported: enhanced erase\n\t2min for SECURITY ERASE UNIT. 8min for ENHANCED SECURITY ERASE UNIT.\n" +
	"Logical Unit WWN Device Identifier: 5002538e40a1b2c3\n\tnot\tsupported\n"

const qemuDrive = "/dev/sda:\n\nATA device, with non-removable media\n\tModel Number:       QEMU HARDDISK\nCommands/features:\n\tEnabled\tSupported:\n\t   *\tSMART feature set\n"

func TestParseSecurity(t *testing.T) {
	if got := parseSecurity([]byte(qemuDrive)); got != nil {
		t.Errorf("got %+v", got)
	}
	want := &security{supported: true, frozen: true, enhanced: true}
	if got := parseSecurity([]byte(frozenDrive)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	ready := strings.Replace(frozenDrive, "\t\tfrozen", "\tnot\tfrozen", 1)
	if got := parseSecurity([]byte(ready)); got.frozen || !got.supported {
		t.Errorf("got %+v", got)
	}
	locked := strings.NewReplacer("\tnot\tenabled", "\t\tenabled", "\tnot\tlocked", "\t\tlocked").Replace(frozenDrive)
	if got := parseSecurity([]byte(locked)); !got.locked || !got.enabled {
		t.Errorf("got %+v", got)
	}
}

// identify makes the data of Identify Controller.
func identify(oacs uint16, sanicap uint32, fna byte) []byte {
	data := make([]byte, identifyBytes)
	binary.LittleEndian.PutUint16(data[256:], oacs)
	binary.LittleEndian.PutUint32(data[328:], sanicap)
	data[524] = fna
	return data
}

func TestPlan(t *testing.T) {
	nvme := func(oacs uint16, sanicap uint32, fna byte) *controller {
		parsed := parseController(identify(oacs, sanicap, fna))
		return &parsed
	}
	flash := disk.Disk{Kind: disk.NVMe, DiscardBytes: 1 << 30}
	ssd := disk.Disk{Kind: disk.SSD, DiscardBytes: 1 << 30}
	for name, test := range map[string]struct {
		facts facts
		want  string
	}{
		"NVMe with format":                       {facts{disk: flash, nvme: nvme(0x17, 3, 4)}, "nvme-format nvme-sanitize discard overwrite"},
		"NVMe that only sanitizes":               {facts{disk: flash, nvme: nvme(0x15, 2, 0)}, "nvme-sanitize discard overwrite"},
		"NVMe without either":                    {facts{disk: flash, nvme: nvme(0, 0, 0)}, "discard overwrite"},
		"NVMe that does not answer":              {facts{disk: flash}, "discard overwrite"},
		"namespace beside one that is kept":      {facts{disk: flash, nvme: nvme(2, 3, 0), keptSibling: true}, "nvme-format discard overwrite"},
		"the same where format erases all":       {facts{disk: flash, nvme: nvme(2, 3, 1), keptSibling: true}, "discard overwrite"},
		"the same where secure erase erases all": {facts{disk: flash, nvme: nvme(2, 3, 2), keptSibling: true}, "discard overwrite"},
		"SATA":                                   {facts{disk: ssd, ata: &security{supported: true, enhanced: true}}, "ata-secure-erase discard overwrite"},
		"SATA, frozen":                           {facts{disk: ssd, ata: parseSecurity([]byte(frozenDrive))}, "discard overwrite"},
		"SATA with another password":             {facts{disk: ssd, ata: &security{supported: true, enabled: true}}, "discard overwrite"},
		"hard disk without security":             {facts{disk: disk.Disk{Kind: disk.HDD, DiscardBytes: 1}}, "overwrite"},
		"virtual disk with discard":              {facts{disk: disk.Disk{Kind: disk.Virtual, DiscardBytes: 1}}, "discard overwrite"},
		"virtual disk without discard":           {facts{disk: disk.Disk{Kind: disk.Virtual}}, "overwrite"},
	} {
		got, err := plan(test.facts)
		if err != nil || strings.Join(got, " ") != test.want {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, test.want)
		}
	}
}

func TestLockedDriveFailsByName(t *testing.T) {
	_, err := plan(facts{disk: disk.Disk{Path: "/dev/sdq", Serial: "S9"}, ata: &security{supported: true, enabled: true, locked: true}})
	if err == nil || !strings.Contains(err.Error(), "/dev/sdq") || !strings.Contains(err.Error(), "S9") {
		t.Errorf("got %v", err)
	}
}

func TestFormatKeepsBlockSizeAndProtection(t *testing.T) {
	namespace := make([]byte, identifyBytes)
	namespace[26], namespace[29] = 0x13, 0x09
	if got := formatWord(namespace, eraseUser); got != 0x3|0x10|1<<5|1<<8|1<<9 {
		t.Errorf("got %#x", got)
	}
}

func TestSanitizeLog(t *testing.T) {
	log := make([]byte, logBytes)
	binary.LittleEndian.PutUint16(log, 32768)
	binary.LittleEndian.PutUint16(log[2:], 2)
	if running, percent, failed := parseSanitizeLog(log); !running || percent != 50 || failed {
		t.Errorf("got %v %d %v", running, percent, failed)
	}
	binary.LittleEndian.PutUint16(log[2:], 3)
	if running, _, failed := parseSanitizeLog(log); running || !failed {
		t.Errorf("got %v %v", running, failed)
	}
}

func TestCommandHasTheSizeOfTheKernels(t *testing.T) {
	if size := unsafe.Sizeof(adminCommand{}); size != 72 {
		t.Errorf("got %d", size)
	}
}

func TestKeepOfAnUnknownDiskErasesNothing(t *testing.T) {
	all := []disk.Disk{{Name: "sda", Path: "/dev/sda", Serial: "S1", WWN: "5002538e40a1b2c3"}}
	for _, name := range []string{"sda", "/dev/sda", "s1", "0x5002538e40a1b2c3"} {
		if kept, err := keptOf(all, []string{name}); err != nil || !kept["/dev/sda"] {
			t.Errorf("%s: got %v, %v", name, kept, err)
		}
	}
	if _, err := keptOf(all, []string{"sdb"}); err == nil {
		t.Error("an unknown disk was accepted")
	}
}

func TestMarksReachBothEnds(t *testing.T) {
	for _, size := range []uint64{1 << 16, 1 << 20, 1000204886016} {
		offsets := markOffsets(size)
		if offsets[0] != 0 || offsets[len(offsets)-1] != int64(size/markBytes*markBytes-markBytes) {
			t.Errorf("%d: got %v", size, offsets)
		}
	}
	if got := deviceOf("nvme10n2") + " " + deviceOf("sda"); got != "nvme10 sda" {
		t.Errorf("got %s", got)
	}
}

func quiet(int, string) {}

func TestWhatIsLeftOutIsReportedWithTheReason(t *testing.T) {
	all := []disk.Disk{
		{Name: "sda", Path: "/dev/sda", Serial: "WORN", WWN: "5001", Bytes: 1 << 30, ReadOnly: true},
		{Name: "sdb", Path: "/dev/sdb", Serial: "KEPT", Bytes: 1 << 30},
		{Name: "sr0", Path: "/dev/sr0", Medium: true, ReadOnly: true},
		{Name: "sdc", Path: "/dev/sdc", Serial: "GOOD", Bytes: 1 << 30},
	}
	work := newBatch(all, map[string]bool{"/dev/sdb": true}, quiet)
	if len(work.groups) != 1 || len(work.groups["sdc"]) != 1 {
		t.Errorf("got %v", work.groups)
	}
	result, err := work.outcome()
	want := []account{
		{Path: "/dev/sda", Serial: "WORN", WWN: "5001", Bytes: 1 << 30, LeftOut: "it is read-only"},
		{Path: "/dev/sdb", Serial: "KEPT", Bytes: 1 << 30, LeftOut: "the request names it"},
		{Path: "/dev/sr0", LeftOut: "it is a medium that is not a part of the machine", Medium: true},
	}
	if err != nil || !reflect.DeepEqual(result.(output).Disks, want) {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestAMachineWithoutDisksReportsAnEmptyList(t *testing.T) {
	result, err := newBatch(nil, nil, quiet).outcome()
	text, _ := json.Marshal(result)
	if err != nil || !strings.HasPrefix(string(text), `{"disks":[],"note":"The kernel shows`) {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestPathsOfEqualNamesAreErasedOneAfterTheOther(t *testing.T) {
	all := []disk.Disk{
		{Name: "sda", Path: "/dev/sda", Serial: "P", WWN: "5001"},
		{Name: "sdb", Path: "/dev/sdb", Serial: "P", WWN: "5001"},
		{Name: "sdc", Path: "/dev/sdc", Serial: "Q"},
		{Name: "sdd", Path: "/dev/sdd", Serial: "Q"},
	}
	work := newBatch(all, nil, quiet)
	if len(work.groups) != 3 || len(work.groups["sda"]) != 2 {
		t.Errorf("got %v", work.groups)
	}
	if kept, err := keptOf(all, []string{"/dev/sdb"}); err != nil || !kept["/dev/sda"] || kept["/dev/sdc"] {
		t.Errorf("got %v, %v", kept, err)
	}
}

func TestTwoPathsAreProvenByAMark(t *testing.T) {
	folder := t.TempDir()
	make := func(name string) disk.Disk {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte{1}, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		return disk.Disk{Path: path, Serial: "P", WWN: "5001", Bytes: 1 << 20, SectorSize: 512}
	}
	one, other := make("one"), make("other")
	if _, err := mark(one); errors.Is(err, syscall.EINVAL) {
		t.Skip("the folder has no direct access")
	}
	path := one
	path.Path = filepath.Join(folder, "path")
	if err := os.Link(one.Path, path.Path); err != nil {
		t.Fatal(err)
	}
	if !sameDisk(one, path) || sameDisk(one, other) {
		t.Error("equal names decide, and not the marks")
	}
	work := newBatch([]disk.Disk{one, path, other}, nil, quiet)
	work.done = []account{{Path: one.Path, Means: Discard}}
	if !work.erasedBefore(path, []disk.Disk{one}) || work.erasedBefore(other, []disk.Disk{one, path}) {
		t.Error("a disk counts as erased that was not, or a path does not")
	}
}
