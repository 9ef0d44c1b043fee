// Package erase removes data from disks, by the best means that each disk offers, and checks that it is gone.
package erase

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// NotErased is the code of the error that names disks which could not be erased.
const NotErased = "DISK_NOT_ERASED"

type request struct {
	Mode string   `json:"mode"`
	Keep []string `json:"keep"`
}

// account is what became of one disk.
type account struct {
	Path    string  `json:"path"`
	Serial  string  `json:"serial"`
	WWN     string  `json:"wwn"`
	Bytes   uint64  `json:"bytes"`
	Means   string  `json:"means,omitempty"`
	Seconds float64 `json:"seconds"`
	// Note is why no better means was used.
	Note string `json:"note,omitempty"`
	// LeftOut is why the disk was not erased.
	LeftOut string `json:"leftOut,omitempty"`
	Medium  bool   `json:"medium,omitempty"`
}

// output has every disk that the kernel shows.
type output struct {
	Disks []account `json:"disks"`
	// Note is what the kernel shows, if nothing was erased.
	Note string `json:"note,omitempty"`
}

// Run is the task erase. Disks are erased at the same time, the namespaces of one NVMe device one after the other.
func Run(ctx context.Context, args json.RawMessage, progress task.Progress) (any, error) {
	var wanted request
	if err := task.Decode(args, &wanted); err != nil {
		return nil, err
	}
	if wanted.Mode != "METADATA" && wanted.Mode != "ALL" {
		return nil, task.Fail(task.Unsupported, "The mode %q of erasing is unknown to this agent.", wanted.Mode)
	}
	all := disk.All()
	kept, err := keptOf(all, wanted.Keep)
	if err != nil {
		return nil, err
	}
	work := newBatch(all, kept, progress)
	for _, group := range work.groups {
		work.waiting.Add(1)
		go func(disks []disk.Disk) {
			defer work.waiting.Done()
			for index, each := range disks {
				if !work.erasedBefore(each, disks[:index]) {
					work.erase(ctx, each, wanted.Mode)
				}
			}
		}(group)
	}
	work.waiting.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return work.outcome()
}

// keptOf fails if a disk to keep does not exist: a typing error must not cost its data. The other paths to a disk are
// kept with it.
func keptOf(all []disk.Disk, keep []string) (map[string]bool, error) {
	kept := map[string]bool{}
	for _, name := range keep {
		found := false
		for _, each := range all {
			if !isNamed(each, name) {
				continue
			}
			found = true
			for _, other := range all {
				if other.Path == each.Path || other.HasNamesOf(each) {
					kept[other.Path] = true
				}
			}
		}
		if !found {
			return nil, task.Fail(disk.NotFound, "The disk %q, which is to be left out, does not exist; nothing was erased. %s", name, disk.Describe(all))
		}
	}
	return kept, nil
}

func isNamed(d disk.Disk, name string) bool {
	return name == d.Path || name == d.Name || strings.EqualFold(strings.TrimSpace(name), d.Serial) || d.WWN != "" && disk.NormalWWN(name) == d.WWN
}

// leftOut is why a disk is not erased, empty if it is.
func leftOut(d disk.Disk, kept map[string]bool) string {
	switch {
	case d.Medium:
		return "it is a medium that is not a part of the machine"
	case kept[d.Path]:
		return "the request names it"
	case d.ReadOnly:
		return "it is read-only"
	}
	return ""
}

// batch is the work on all disks.
type batch struct {
	groups  map[string][]disk.Disk
	kept    map[string]bool
	all     []disk.Disk
	report  task.Progress
	waiting sync.WaitGroup

	mutex   sync.Mutex
	percent map[string]int
	doing   map[string]string
	done    []account
	failed  []string
}

func newBatch(all []disk.Disk, kept map[string]bool, progress task.Progress) *batch {
	work := &batch{groups: map[string][]disk.Disk{}, kept: kept, all: all, report: progress, percent: map[string]int{}, doing: map[string]string{}}
	for _, each := range all {
		if reason := leftOut(each, kept); reason != "" {
			work.done = append(work.done, account{Path: each.Path, Serial: each.Serial, WWN: each.WWN, Bytes: each.Bytes, LeftOut: reason, Medium: each.Medium})
			continue
		}
		group := work.groupOf(each)
		work.groups[group] = append(work.groups[group], each)
		work.percent[each.Path] = 0
	}
	return work
}

// groupOf is the device of a disk, or that of another path to it: the marks of two erasures would meet on one disk.
func (b *batch) groupOf(d disk.Disk) string {
	for name, disks := range b.groups {
		for _, each := range disks {
			if d.HasNamesOf(each) {
				return name
			}
		}
	}
	return deviceOf(d.Name)
}

// erasedBefore: the disk is a path to one that was erased. Equal names do not prove it: a mark that is written through
// the other path must appear on this one.
func (b *batch) erasedBefore(d disk.Disk, before []disk.Disk) bool {
	for _, other := range before {
		if !d.HasNamesOf(other) || d.Bytes != other.Bytes || !sameDisk(other, d) {
			continue
		}
		b.mutex.Lock()
		defer b.mutex.Unlock()
		for _, each := range b.done {
			if each.Path == other.Path {
				b.done = append(b.done, account{Path: d.Path, Serial: d.Serial, WWN: d.WWN, Bytes: d.Bytes, Means: each.Means, Note: "another path to " + other.Path})
				b.percent[d.Path] = 100
				return true
			}
		}
	}
	return false
}

func (b *batch) progress(path, means string, percent int) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.percent[path] = percent
	if percent < 100 {
		b.doing[path] = path + " " + means
	} else {
		delete(b.doing, path)
	}
	sum := 0
	for _, value := range b.percent {
		sum += value
	}
	var names []string
	for _, name := range b.doing {
		names = append(names, name)
	}
	sort.Strings(names)
	b.report(sum/len(b.percent), strings.Join(names, ", "))
}

func (b *batch) erase(ctx context.Context, d disk.Disk, mode string) {
	begun := time.Now()
	means, note, err := b.attempt(ctx, d, mode)
	b.progress(d.Path, means, 100)
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if err != nil {
		b.failed = append(b.failed, err.Error())
		return
	}
	b.done = append(b.done, account{Path: d.Path, Serial: d.Serial, WWN: d.WWN, Bytes: d.Bytes, Means: means, Seconds: time.Since(begun).Seconds(), Note: note})
}

func (b *batch) attempt(ctx context.Context, d disk.Disk, mode string) (means, note string, err error) {
	if mode == "METADATA" {
		if err := eraseMetadata(d); err != nil {
			return Metadata, "", fmt.Errorf("%s: %v", d, err)
		}
		return Metadata, "", nil
	}
	found := b.inspect(ctx, d)
	list, err := plan(found)
	if err != nil {
		return "", "", plain(err)
	}
	var reasons []string
	if found.ata != nil && found.ata.frozen {
		reasons = append(reasons, ATASecure+": the firmware of the machine has frozen the drive's security")
	}
	for _, means := range list {
		err := b.apply(ctx, found, means)
		if err == nil {
			return means, strings.Join(reasons, "; "), nil
		}
		if ctx.Err() != nil {
			return means, "", ctx.Err()
		}
		reasons = append(reasons, fmt.Sprintf("%s: %v", means, err))
	}
	return "", "", fmt.Errorf("%s: %s", d, strings.Join(reasons, "; "))
}

func plain(err error) error {
	if known, ok := err.(*task.Error); ok {
		return fmt.Errorf("%s", known.Message)
	}
	return err
}

func (b *batch) inspect(ctx context.Context, d disk.Disk) facts {
	found := facts{disk: d}
	for _, each := range b.all {
		if each.Path != d.Path && deviceOf(each.Name) == deviceOf(d.Name) && b.kept[each.Path] {
			found.keptSibling = true
		}
	}
	switch d.Protocol {
	case "NVME":
		found.nvme, _ = readController(d)
	case "SATA", "SAS", "SCSI":
		found.ata, _ = readSecurity(ctx, d)
	}
	return found
}

// apply erases by one means, and checks that marks which were written before are gone: some drives report success and do
// nothing.
func (b *batch) apply(ctx context.Context, found facts, means string) error {
	d := found.disk
	b.progress(d.Path, means, 0)
	marks, err := mark(d)
	if err != nil {
		return fmt.Errorf("it cannot be written: %w", err)
	}
	step := func(percent int) { b.progress(d.Path, means, percent) }
	switch means {
	case NVMeFormat:
		err = nvmeFormat(d, *found.nvme)
	case NVMeSanitize:
		err = nvmeSanitize(ctx, d, *found.nvme, step)
	case ATASecure:
		err = secureErase(ctx, d, *found.ata)
	case Discard:
		err = discard(ctx, d, step)
	default:
		err = overwrite(ctx, d, step)
	}
	if err != nil {
		return err
	}
	return marks.gone(d)
}

func (b *batch) outcome() (any, error) {
	sort.Slice(b.done, func(x, y int) bool { return b.done[x].Path < b.done[y].Path })
	var names []string
	for _, each := range b.done {
		if each.LeftOut == "" {
			names = append(names, each.Path)
		}
	}
	if len(b.failed) == 0 {
		result := output{Disks: append([]account{}, b.done...)}
		if len(names) == 0 {
			result.Note = disk.Visible()
		}
		return result, nil
	}
	sort.Strings(b.failed)
	erasedNames := strings.Join(names, ", ")
	if erasedNames == "" {
		erasedNames = "none"
	}
	return nil, task.Fail(NotErased, "Not erased: %s. Erased: %s.", strings.Join(b.failed, " | "), erasedNames)
}
