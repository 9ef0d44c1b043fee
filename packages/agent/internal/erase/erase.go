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

type erased struct {
	Path    string  `json:"path"`
	Serial  string  `json:"serial"`
	Bytes   uint64  `json:"bytes"`
	Means   string  `json:"means"`
	Seconds float64 `json:"seconds"`
	// Note is why no better means was used.
	Note string `json:"note,omitempty"`
}

type output struct {
	Disks []erased `json:"disks"`
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
	all := disk.List()
	kept, err := keptOf(all, wanted.Keep)
	if err != nil {
		return nil, err
	}
	work := newBatch(all, kept, progress)
	for _, group := range work.groups {
		work.waiting.Add(1)
		go func(disks []disk.Disk) {
			defer work.waiting.Done()
			for _, each := range disks {
				work.erase(ctx, each, wanted.Mode)
			}
		}(group)
	}
	work.waiting.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return work.outcome()
}

// keptOf fails if a disk to keep does not exist: a typing error must not cost its data.
func keptOf(all []disk.Disk, keep []string) (map[string]bool, error) {
	kept := map[string]bool{}
	for _, name := range keep {
		found := false
		for _, each := range all {
			if name == each.Path || name == each.Name || strings.EqualFold(name, each.Serial) || each.WWN != "" && disk.NormalWWN(name) == each.WWN {
				kept[each.Path], found = true, true
			}
		}
		if !found {
			return nil, task.Fail(disk.NotFound, "The disk %q, which is to be kept, does not exist; nothing was erased. %s", name, disk.Describe(all))
		}
	}
	return kept, nil
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
	done    []erased
	failed  []string
}

func newBatch(all []disk.Disk, kept map[string]bool, progress task.Progress) *batch {
	work := &batch{groups: map[string][]disk.Disk{}, kept: kept, all: all, report: progress, percent: map[string]int{}, doing: map[string]string{}}
	for _, each := range all {
		if !kept[each.Path] {
			group := deviceOf(each.Name)
			work.groups[group] = append(work.groups[group], each)
			work.percent[each.Path] = 0
		}
	}
	return work
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
	b.done = append(b.done, erased{d.Path, d.Serial, d.Bytes, means, time.Since(begun).Seconds(), note})
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
	if len(b.failed) == 0 {
		if b.done == nil {
			b.done = []erased{}
		}
		return output{b.done}, nil
	}
	sort.Strings(b.failed)
	var names []string
	for _, each := range b.done {
		names = append(names, each.Path)
	}
	erasedNames := strings.Join(names, ", ")
	if erasedNames == "" {
		erasedNames = "none"
	}
	return nil, task.Fail(NotErased, "Not erased: %s. Erased: %s.", strings.Join(b.failed, " | "), erasedNames)
}
