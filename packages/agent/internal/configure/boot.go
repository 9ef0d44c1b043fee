package configure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"ostler-agent/internal/command"
	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// bootLabel names the boot entry. Entries of earlier deployments have the same, and are removed.
const bootLabel = "Ostler"

const mountPoint = "/mnt"

var entryPattern = regexp.MustCompile(`(?m)^Boot([0-9A-Fa-f]{4})[* ] ?(.*)$`)

// bootEntries returns the numbers of the entries with a label, from the output of efibootmgr.
func bootEntries(output, label string) []string {
	var numbers []string
	for _, match := range entryPattern.FindAllStringSubmatch(output, -1) {
		name, _, _ := strings.Cut(match[2], "\t")
		if strings.TrimSpace(name) == label {
			numbers = append(numbers, strings.ToUpper(match[1]))
		}
	}
	return numbers
}

// addBootEntry makes the firmware start the disk first. It returns nil on a machine without UEFI. The entry is for the
// next start too, unless the note says why it is not.
func addBootEntry(ctx context.Context, d disk.Disk, list []partition) (entry *string, note string, err error) {
	if _, err := os.Stat("/sys/firmware/efi/efivars"); err != nil {
		return nil, "", nil
	}
	var system *partition
	for index := range list {
		if list[index].system && system == nil {
			system = &list[index]
		}
	}
	if system == nil {
		return nil, "", task.Fail(BootEntryFailed, "%s has no EFI system partition: the image cannot be started by UEFI.", d)
	}
	loader, err := findLoader(devicePath(d, system.number))
	if err != nil {
		return nil, "", task.Fail(BootEntryFailed, "%v", err)
	}
	listed, err := command.Run(ctx, "efibootmgr")
	if err != nil {
		return nil, "", task.Fail(BootEntryFailed, "The boot entries of the firmware cannot be read: %v.", err)
	}
	for _, number := range bootEntries(string(listed), bootLabel) {
		if _, err := command.Run(ctx, "efibootmgr", "-q", "-B", "-b", number); err != nil {
			return nil, "", task.Fail(BootEntryFailed, "Boot entry %s cannot be removed: %v.", number, err)
		}
	}
	// A new entry becomes the first of the boot order.
	created, err := command.Run(ctx, "efibootmgr", "-c", "-d", d.Path, "-p", strconv.Itoa(system.number), "-L", bootLabel, "-l", loader)
	if err != nil {
		return nil, "", task.Fail(BootEntryFailed, "The firmware does not take a boot entry: %v.", err)
	}
	numbers := bootEntries(string(created), bootLabel)
	if len(numbers) == 0 {
		return nil, "", task.Fail(BootEntryFailed, "The firmware does not list the new boot entry.")
	}
	note, err = startNext(ctx, numbers[0], len(disk.BuiltIn()))
	return &numbers[0], note, err
}

// startNext has the firmware start an entry next: it may put the entries of other disks or of the network first when it
// looks for them. If it refuses that, a machine with one disk can start nothing else, and the note says so.
func startNext(ctx context.Context, number string, disks int) (note string, err error) {
	_, err = command.Run(ctx, "efibootmgr", "-q", "-n", number)
	switch {
	case err == nil:
		return "", nil
	case disks > 1:
		return "", task.Fail(BootEntryFailed, "The firmware does not take boot entry %s for the next start, and may start another disk: %v.", number, err)
	}
	return fmt.Sprintf("The firmware does not take boot entry %s for the next start, so its own boot order decides: %v.", number, err), nil
}

// findLoader looks for the program that firmware starts from a disk without an entry, then for a distribution's own.
func findLoader(device string) (string, error) {
	if err := syscall.Mount(device, mountPoint, "vfat", syscall.MS_RDONLY, ""); err != nil {
		return "", fmt.Errorf("the EFI system partition %s cannot be mounted: %v", device, err)
	}
	defer func() { _ = syscall.Unmount(mountPoint, 0) }()
	return loaderBelow(mountPoint, runtime.GOARCH)
}

func loaderBelow(root, architecture string) (string, error) {
	suffix := "x64.efi"
	if architecture == "arm64" {
		suffix = "aa64.efi"
	}
	var found []string
	rank := map[string]int{"boot" + suffix: 1, "shim" + suffix: 2, "grub" + suffix: 3, "systemd-boot" + suffix: 4}
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && rank[strings.ToLower(entry.Name())] > 0 {
			found = append(found, path)
		}
		return nil
	})
	if len(found) == 0 {
		return "", fmt.Errorf("the EFI system partition has no boot loader for this machine: no boot%s", suffix)
	}
	sort.SliceStable(found, func(a, b int) bool {
		return rank[strings.ToLower(filepath.Base(found[a]))] < rank[strings.ToLower(filepath.Base(found[b]))]
	})
	relative, err := filepath.Rel(root, found[0])
	return `\` + strings.ReplaceAll(relative, "/", `\`), err
}
