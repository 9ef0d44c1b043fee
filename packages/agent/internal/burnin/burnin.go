// Package burnin puts load on a part of the machine for a time, and checks what it computes, remembers or stores.
package burnin

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// Failed is the code of the error that names the part which made a mistake.
const Failed = "BURN_IN_FAILED"

const (
	progressEvery = 500 * time.Millisecond
	// rounds of SHA-256 before the result is compared.
	rounds = 20000
	// memoryShare is the part of the free memory that is tested; the rest keeps the agent alive.
	memoryShare = 0.8
	blockBytes  = 1 << 20
	pageBytes   = 4096
)

type request struct {
	Part        string `json:"part"`
	Seconds     int    `json:"seconds"`
	Destructive bool   `json:"destructive"`
}

type output struct {
	Part    string  `json:"part"`
	Seconds float64 `json:"seconds"`
	// Checked are results compared (CPU) or bytes compared (MEMORY) or read (DISK).
	Checked uint64 `json:"checked"`
}

// Run is the task burn_in.
func Run(ctx context.Context, args json.RawMessage, progress task.Progress) (any, error) {
	var wanted request
	if err := task.Decode(args, &wanted); err != nil {
		return nil, err
	}
	parts := map[string]func(context.Context, *load) error{"CPU": cpu, "MEMORY": memory, "DISK": disks}
	part, known := parts[wanted.Part]
	if !known || wanted.Seconds <= 0 {
		return nil, task.Fail(task.Unsupported, "A burn-in of %q for %d seconds is unknown to this agent.", wanted.Part, wanted.Seconds)
	}
	begun := time.Now()
	limit := time.Duration(wanted.Seconds) * time.Second
	work := &load{until: begun.Add(limit), destructive: wanted.Destructive}
	stop := make(chan struct{})
	go work.show(stop, begun, limit, wanted.Part, progress)
	err := part(ctx, work)
	close(stop)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return output{wanted.Part, time.Since(begun).Seconds(), atomic.LoadUint64(&work.checked)}, nil
}

// load is what the goroutines of one burn-in share.
type load struct {
	until       time.Time
	destructive bool
	checked     uint64
	mutex       sync.Mutex
	failure     error
}

func (l *load) show(stop <-chan struct{}, begun time.Time, limit time.Duration, part string, progress task.Progress) {
	for {
		percent := int(time.Since(begun) * 100 / limit)
		if percent > 99 {
			percent = 99
		}
		progress(percent, fmt.Sprintf("burn-in of %s, %d checked", part, atomic.LoadUint64(&l.checked)))
		select {
		case <-stop:
			return
		case <-time.After(progressEvery):
		}
	}
}

func (l *load) fail(err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.failure == nil {
		l.failure = err
	}
}

func (l *load) going(ctx context.Context) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.failure == nil && ctx.Err() == nil && time.Now().Before(l.until)
}

func (l *load) parallel(count int, do func(index int)) error {
	var waiting sync.WaitGroup
	for index := 0; index < count; index++ {
		waiting.Add(1)
		go func(index int) {
			defer waiting.Done()
			do(index)
		}(index)
	}
	waiting.Wait()
	return l.failure
}

func chain() [32]byte {
	var sum [32]byte
	for round := 0; round < rounds; round++ {
		sum = sha256.Sum256(sum[:])
	}
	return sum
}

func cpu(ctx context.Context, l *load) error {
	want := chain()
	return l.parallel(runtime.NumCPU(), func(int) {
		runtime.LockOSThread()
		for l.going(ctx) {
			if chain() != want {
				l.fail(task.Fail(Failed, "A processor computed a wrong SHA-256 checksum."))
			}
			atomic.AddUint64(&l.checked, 1)
		}
	})
}

func availableBytes() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			kibibytes, _ := strconv.ParseUint(fields[1], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}

func memory(ctx context.Context, l *load) error {
	workers := runtime.NumCPU()
	share := uint64(float64(availableBytes())*memoryShare) / uint64(workers) / blockBytes * blockBytes
	if share == 0 {
		return task.Fail(task.Unsupported, "Too little memory is free for a burn-in.")
	}
	return l.parallel(workers, func(int) {
		area, err := disk.Buffer(int(share))
		if err != nil {
			l.fail(err)
			return
		}
		defer disk.Free(area)
		for round := uint64(0); l.going(ctx); round++ {
			l.passMemory(ctx, area, round)
		}
	})
}

// passMemory writes a pattern that differs by address and round everywhere, then compares it everywhere.
func (l *load) passMemory(ctx context.Context, area []byte, round uint64) {
	for offset := 0; offset < len(area) && l.going(ctx); offset += blockBytes {
		fill(area[offset:offset+blockBytes], round, uint64(offset))
	}
	expected := make([]byte, blockBytes)
	for offset := 0; offset < len(area) && l.going(ctx); offset += blockBytes {
		fill(expected, round, uint64(offset))
		if !bytes.Equal(expected, area[offset:offset+blockBytes]) {
			l.fail(task.Fail(Failed, "Memory does not keep what was written to it (round %d).", round))
		}
		atomic.AddUint64(&l.checked, blockBytes)
	}
}

// fill: odd rounds are the inverse of even ones, so each bit has both values.
func fill(block []byte, round, seed uint64) {
	value := (seed+round/2)*0x9E3779B97F4A7C15 + 1
	if round%2 == 1 {
		value = ^value
	}
	for offset := 0; offset < pageBytes; offset += 8 {
		binary.LittleEndian.PutUint64(block[offset:], value)
		value = value<<7 | value>>57
	}
	for offset := pageBytes; offset < len(block); offset += pageBytes {
		copy(block[offset:offset+pageBytes], block[:pageBytes])
	}
}

func disks(ctx context.Context, l *load) error {
	list := disk.List()
	if len(list) == 0 {
		return task.Fail(disk.NotFound, "%s", disk.Describe(list))
	}
	return l.parallel(len(list), func(index int) {
		if err := l.exercise(ctx, list[index]); err != nil {
			l.fail(task.Fail(Failed, "%s: %v.", list[index], err))
		}
	})
}

// exercise reads a disk from its beginning, again and again; a destructive burn-in writes a pattern first.
func (l *load) exercise(ctx context.Context, d disk.Disk) error {
	open := disk.OpenReadOnly
	if l.destructive {
		open = disk.Open
	}
	device, err := open(d)
	if err != nil {
		return err
	}
	defer device.Close()
	buffer, err := disk.Buffer(disk.ChunkBytes)
	if err != nil {
		return err
	}
	defer disk.Free(buffer)
	pattern, err := disk.Buffer(disk.ChunkBytes)
	if err != nil {
		return err
	}
	defer disk.Free(pattern)
	for round := uint64(0); l.going(ctx); round++ {
		for offset := uint64(0); offset < d.Bytes && l.going(ctx); offset += disk.ChunkBytes {
			length := d.Bytes - offset
			if length > disk.ChunkBytes {
				length = disk.ChunkBytes
			}
			if err := l.chunk(device, buffer[:length], pattern[:length], offset, round); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *load) chunk(device *disk.Device, buffer, pattern []byte, offset, round uint64) error {
	if l.destructive {
		fill(pattern, round, offset)
		if _, err := device.WriteAt(pattern, int64(offset)); err != nil {
			return fmt.Errorf("writing at byte %d failed: %w", offset, err)
		}
	}
	if _, err := device.ReadAt(buffer, int64(offset)); err != nil {
		return fmt.Errorf("reading at byte %d failed: %w", offset, err)
	}
	if l.destructive && !bytes.Equal(buffer, pattern) {
		return fmt.Errorf("byte %d and following are not what was written", offset)
	}
	atomic.AddUint64(&l.checked, uint64(len(buffer)))
	return nil
}
