// Package image fetches a disk image, checks and unpacks it on the way, and writes it to a disk.
package image

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/session"
	"ostler-agent/internal/task"
)

// Codes of errors.
const (
	TooLarge    = "IMAGE_TOO_LARGE"
	Mismatch    = "CHECKSUM_MISMATCH"
	Unreachable = "IMAGE_UNREACHABLE"
	Stalled     = "IMAGE_STALLED"
	Cut         = "IMAGE_CUT"
	Corrupt     = "IMAGE_CORRUPT"
	WriteFailed = "WRITE_FAILED"
)

const (
	defaultStall    = 30 * time.Second
	defaultPatience = 120 * time.Second
	restartsMax     = 3
	progressEvery   = 500 * time.Millisecond
	mebibyte        = 1 << 20
)

// Image is what to write.
type Image struct {
	URL       string `json:"url"`
	Format    string `json:"format"`
	SizeBytes int64  `json:"sizeBytes"`
	Checksum  struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"value"`
	} `json:"checksum"`
}

type request struct {
	Image        Image       `json:"image"`
	RootDisk     *disk.Hints `json:"rootDisk"`
	MinimumBytes uint64      `json:"minimumBytes"`
	// StallSeconds without a byte break a connection; PatienceSeconds, over all connections, end the task.
	StallSeconds    int `json:"stallSeconds"`
	PatienceSeconds int `json:"patienceSeconds"`
}

type output struct {
	Disk    Written `json:"disk"`
	Bytes   uint64  `json:"bytes"`
	Seconds float64 `json:"seconds"`
	// Restarts began again with the first byte; Resumed are connections that went on where another broke.
	Restarts int `json:"restarts"`
	Resumed  int `json:"resumed"`
}

// Written names a disk.
type Written struct {
	Path   string `json:"path"`
	Serial string `json:"serial"`
	WWN    string `json:"wwn,omitempty"`
	Bytes  uint64 `json:"bytes,omitempty"`
}

// Resolver makes an image's address complete, with the bearer and the trust if it belongs to the service.
type Resolver func(address string) (full string, bearer string, trust *tls.Config)

// Write is the task write_image.
func Write(ctx context.Context, args json.RawMessage, resolve Resolver, progress task.Progress) (any, error) {
	var wanted request
	if err := task.Decode(args, &wanted); err != nil {
		return nil, err
	}
	selected, err := disk.Select(disk.List(), wanted.RootDisk)
	if err != nil {
		return nil, err
	}
	if err := fits(wanted, selected); err != nil {
		return nil, err
	}
	device, err := disk.Open(selected)
	if err != nil {
		return nil, task.Fail(WriteFailed, "%v", err)
	}
	defer device.Close()
	job := newTransfer(wanted, resolve, progress)
	begun := time.Now()
	bytes, err := job.run(ctx, device, selected)
	if err != nil {
		return nil, err
	}
	if err := device.RereadPartitions(); err != nil {
		return nil, task.FailRetryable(WriteFailed, "The kernel does not read the partitions of %s: %v.", selected.Path, err)
	}
	result := output{
		Disk:  Written{selected.Path, selected.Serial, selected.WWN, selected.Bytes},
		Bytes: bytes, Seconds: time.Since(begun).Seconds(), Restarts: job.restarts, Resumed: job.resumed,
	}
	if text, err := json.Marshal(result.Disk); err == nil {
		_ = session.Keep("disk", text)
	}
	return result, nil
}

func fits(wanted request, selected disk.Disk) error {
	need := wanted.MinimumBytes
	if size := uint64(wanted.Image.SizeBytes); wanted.Image.Format == "RAW" && size > need {
		need = size
	}
	if need > selected.Bytes {
		return task.Fail(TooLarge, "The image needs %d bytes. The disk is smaller: %s.", need, selected)
	}
	return nil
}

// transfer is one image on its way to one disk.
type transfer struct {
	wanted   request
	address  string
	bearer   string
	trust    *tls.Config
	limits   options
	progress task.Progress
	restarts int
	// last is how a connection broke last.
	last    error
	resumed int
	// stalls of all connections so far.
	stalls int
}

func newTransfer(wanted request, resolve Resolver, progress task.Progress) *transfer {
	address, bearer, trust := resolve(wanted.Image.URL)
	limits := options{stall: defaultStall, patience: defaultPatience, now: time.Now, backoff: func(row int) time.Duration {
		wait := time.Duration(row) * time.Second
		if wait > longestBackoff {
			return longestBackoff
		}
		return wait
	}}
	if wanted.StallSeconds > 0 {
		limits.stall = time.Duration(wanted.StallSeconds) * time.Second
	}
	if wanted.PatienceSeconds > 0 {
		limits.patience = time.Duration(wanted.PatienceSeconds) * time.Second
	}
	return &transfer{wanted: wanted, address: address, bearer: bearer, trust: trust, limits: limits, progress: progress}
}

type syncTarget interface {
	target
	Sync() error
}

func (t *transfer) run(ctx context.Context, device syncTarget, selected disk.Disk) (uint64, error) {
	if err := invalidate(device, selected.Bytes); err != nil {
		return 0, task.Fail(WriteFailed, "%s cannot be written: %v.", selected.Path, err)
	}
	for {
		bytes, err := t.attempt(ctx, device, selected)
		if errors.Is(err, errRestart) {
			if t.restarts++; t.restarts <= restartsMax {
				continue
			}
			return 0, t.notContinued()
		}
		if err != nil {
			return 0, err
		}
		if err := device.Sync(); err != nil {
			return 0, task.Fail(WriteFailed, "%s did not write its cache: %v.", selected.Path, err)
		}
		return bytes, nil
	}
}

// notContinued has the code of what broke the connections: a server that stalls is not one that ends early.
func (t *transfer) notContinued() error {
	code, cause := Cut, ""
	var known *task.Error
	if errors.As(t.last, &known) {
		code, cause = known.Code, " "+known.Message
	}
	return &task.Error{
		Code: code, Retryable: true, Retried: true,
		Message: fmt.Sprintf("The image was begun again %d times, because its server does not continue a broken transfer.%s", restartsMax, cause),
	}
}

func (t *transfer) attempt(ctx context.Context, device target, selected disk.Disk) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sum, err := newHash(t.wanted.Image.Checksum.Algorithm)
	if err != nil {
		return 0, err
	}
	source := newStream(ctx, t.address, t.bearer, t.trust, t.wanted.Image.SizeBytes, t.limits)
	source.stalls = t.stalls
	defer func() { t.resumed, t.last, t.stalls = t.resumed+source.broken, source.last, source.stalls }()
	var seen int64
	packed := io.TeeReader(source, io.MultiWriter(sum, counter{&seen}))
	go t.showProgress(ctx, &seen)
	plain, err := unpack(ctx, t.wanted.Image.Format, packed)
	if err != nil {
		return 0, err
	}
	result, err := copyToDisk(ctx, plain, device, selected.Bytes, selected.SectorSize)
	plain.Close()
	if result.head != nil {
		defer disk.Free(result.head)
	}
	if err != nil || source.fatal != nil {
		return 0, t.explain(err, source)
	}
	if err := t.verify(sum, source); err != nil {
		return 0, err
	}
	if result.bytes == 0 {
		return 0, task.Fail(Corrupt, "The image %s is empty.", source.name())
	}
	if err := writeChunk(device, result.head, 0); err != nil {
		return 0, task.Fail(WriteFailed, "Writing at byte 0 failed: %v.", err)
	}
	return result.bytes, nil
}

// explain finds the cause: a transfer that broke also makes the unpacker fail.
func (t *transfer) explain(err error, source *stream) error {
	if source.fatal != nil {
		return source.fatal
	}
	var known *task.Error
	if errors.As(err, &known) {
		return known
	}
	return task.Fail(Corrupt, "%s cannot be unpacked as %s: %v.", source.name(), t.wanted.Image.Format, err)
}

// verify compares the checksum of the file as it came, before it was unpacked.
func (t *transfer) verify(sum hash.Hash, source *stream) error {
	if _, err := io.Copy(sum, source); err != nil {
		return err
	}
	got := hex.EncodeToString(sum.Sum(nil))
	if want := strings.ToLower(t.wanted.Image.Checksum.Value); got != want {
		return task.Fail(Mismatch, "The %s of %s is %s, not %s. The disk holds no partition table and cannot be started from.",
			t.wanted.Image.Checksum.Algorithm, source.name(), got, want)
	}
	return nil
}

func newHash(algorithm string) (hash.Hash, error) {
	switch algorithm {
	case "SHA256":
		return sha256.New(), nil
	case "SHA512":
		return sha512.New(), nil
	}
	return nil, task.Fail(task.Unsupported, "The checksum algorithm %q is unknown to this agent.", algorithm)
}

func (t *transfer) showProgress(ctx context.Context, seen *int64) {
	for {
		bytes := atomic.LoadInt64(seen)
		percent := 0
		if size := t.wanted.Image.SizeBytes; size > 0 {
			percent = int(bytes * 100 / size)
		}
		t.progress(percent, fmt.Sprintf("%d of %d MiB", bytes/mebibyte, t.wanted.Image.SizeBytes/mebibyte))
		select {
		case <-ctx.Done():
			return
		case <-time.After(progressEvery):
		}
	}
}

// counter counts what passes.
type counter struct{ value *int64 }

func (c counter) Write(data []byte) (int, error) {
	atomic.AddInt64(c.value, int64(len(data)))
	return len(data), nil
}
