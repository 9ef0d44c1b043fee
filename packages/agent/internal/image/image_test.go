package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

const diskBytes = 24 << 20

// memory is a disk.
type memory struct{ data []byte }

func (m *memory) WriteAt(buffer []byte, offset int64) (int, error) {
	return copy(m.data[offset:], buffer), nil
}

func (m *memory) ZeroOut(offset, length uint64) error {
	for index := offset; index < offset+length; index++ {
		m.data[index] = 0
	}
	return nil
}

func (m *memory) Sync() error { return nil }

func sampleImage(size int) []byte {
	image := make([]byte, size)
	rand.New(rand.NewSource(1)).Read(image[:size/3])
	copy(image[size-5:], "ENDED")
	return image
}

func packed(t *testing.T, program string, image []byte) []byte {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(program, "-c")
	cmd.Stdin = bytes.NewReader(image)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func gzipped(image []byte) []byte {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, _ = writer.Write(image)
	writer.Close()
	return out.Bytes()
}

type trial struct {
	file    []byte
	format  string
	handler http.HandlerFunc
	change  func(*request)
}

// transferTo runs a transfer against a server of its own, and returns the disk.
func transferTo(ctx context.Context, t *testing.T, given trial) (*memory, *transfer, uint64, error) {
	t.Helper()
	handler := given.handler
	if handler == nil {
		handler = func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "image", time.Time{}, bytes.NewReader(given.file))
		}
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	sum := sha256.Sum256(given.file)
	var wanted request
	wanted.Image.URL, wanted.Image.Format, wanted.Image.SizeBytes = server.URL+"/image?token=geheim", given.format, int64(len(given.file))
	wanted.Image.Checksum.Algorithm, wanted.Image.Checksum.Value = "SHA256", hex.EncodeToString(sum[:])
	if given.change != nil {
		given.change(&wanted)
	}
	device := &memory{bytes.Repeat([]byte("old "), diskBytes/4)}
	job := newTransfer(wanted, func(address string) (string, string, *tls.Config) { return address, "", nil }, func(int, string) {})
	// The time passes only between connections, and each of them is a third of the patience.
	passed := time.Unix(0, 0)
	job.limits.now = func() time.Time { return passed }
	job.limits.backoff = func(int) time.Duration {
		passed = passed.Add(defaultPatience / 3)
		return 0
	}
	n, err := job.run(ctx, device, disk.Disk{Path: "/dev/test", Bytes: diskBytes, SectorSize: 512})
	if err != nil && strings.Contains(err.Error(), "geheim") {
		t.Errorf("the error repeats a secret of the address: %v", err)
	}
	return device, job, n, err
}

func wantCode(t *testing.T, device *memory, err error, code string) {
	t.Helper()
	known, ok := err.(*task.Error)
	if !ok || known.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
	if !allZero(device.data[:disk.ChunkBytes]) || !allZero(device.data[diskBytes-tailBytes:]) {
		t.Error("something of a partition table is on the disk")
	}
}

func TestEachFormatIsWritten(t *testing.T) {
	image := sampleImage(13<<20 + 1000)
	for _, test := range []struct {
		format string
		pack   func() []byte
	}{
		{"RAW", func() []byte { return image }},
		{"RAW_GZ", func() []byte { return gzipped(image) }},
		{"RAW_XZ", func() []byte { return packed(t, "xz", image) }},
		{"RAW_ZST", func() []byte { return packed(t, "zstd", image) }},
	} {
		t.Run(test.format, func(t *testing.T) {
			device, _, n, err := transferTo(context.Background(), t, trial{file: test.pack(), format: test.format})
			if err != nil || n != uint64(len(image)) || !bytes.Equal(device.data[:n], image) {
				t.Errorf("got %d bytes, %v", n, err)
			}
		})
	}
}

func TestWrongChecksumLeavesNoPartitionTable(t *testing.T) {
	image := sampleImage(9 << 20)
	device, _, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", change: func(wanted *request) {
		wanted.Image.Checksum.Value = strings.Repeat("0", 64)
	}})
	wantCode(t, device, err, Mismatch)
}

func TestFormatIsNotGuessed(t *testing.T) {
	device, _, _, err := transferTo(context.Background(), t, trial{file: sampleImage(1 << 20), format: "RAW_GZ"})
	wantCode(t, device, err, Corrupt)
	device, _, _, err = transferTo(context.Background(), t, trial{file: packed(t, "zstd", sampleImage(1<<20))[:5000], format: "RAW_ZST"})
	wantCode(t, device, err, Corrupt)
}

func TestImageThatUnpacksToMoreThanTheDisk(t *testing.T) {
	device, _, _, err := transferTo(context.Background(), t, trial{file: gzipped(make([]byte, diskBytes+512)), format: "RAW_GZ"})
	wantCode(t, device, err, TooLarge)
}

func TestImageAsLargeAsTheDisk(t *testing.T) {
	if _, _, n, err := transferTo(context.Background(), t, trial{file: gzipped(sampleImage(diskBytes)), format: "RAW_GZ"}); err != nil || n != diskBytes {
		t.Errorf("got %d, %v", n, err)
	}
}

// cutting serves at most part of what is asked for, and breaks the connection.
func cutting(file []byte, part int, ranges bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := 0
		if span := r.Header.Get("Range"); span != "" && ranges && r.Header.Get("If-Range") == `"v1"` {
			from, _ = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(span, "bytes="), "-"))
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(file)-1, len(file)))
		}
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Length", strconv.Itoa(len(file)-from))
		if w.Header().Get("Content-Range") != "" {
			w.WriteHeader(http.StatusPartialContent)
		}
		end := from + part
		if end > len(file) {
			end = len(file)
		}
		_, _ = w.Write(file[from:end])
	}
}

func TestBrokenConnectionGoesOnWhereItBroke(t *testing.T) {
	image := sampleImage(8 << 20)
	device, job, n, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: cutting(image, 3<<20, true)})
	if err != nil || !bytes.Equal(device.data[:n], image) || job.resumed != 2 || job.restarts != 0 {
		t.Errorf("got %d bytes, %d resumed, %d restarts, %v", n, job.resumed, job.restarts, err)
	}
}

func TestServerWithoutRangesIsAskedFromTheBeginningABoundedNumberOfTimes(t *testing.T) {
	image := sampleImage(8 << 20)
	device, job, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: cutting(image, 3<<20, false)})
	wantCode(t, device, err, Cut)
	if job.restarts != restartsMax+1 {
		t.Errorf("got %d restarts", job.restarts)
	}
}

func TestServerThatStallsAndDoesNotContinueIsNotTakenForOneThatEndsEarly(t *testing.T) {
	image := sampleImage(8 << 20)
	stalling := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(image)))
		_, _ = w.Write(image[:3<<20])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	device, job, _, err := transferTo(context.Background(), t, trial{
		file: image, format: "RAW", handler: stalling, change: func(wanted *request) { wanted.StallSeconds = 1 },
	})
	wantCode(t, device, err, Stalled)
	if job.stalls != restartsMax+1 || !retried(err) {
		t.Errorf("got %d stalls, retried: %v", job.stalls, retried(err))
	}
}

func TestRestartSucceeds(t *testing.T) {
	image := sampleImage(8 << 20)
	requests := 0
	device, job, n, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: func(w http.ResponseWriter, r *http.Request) {
		requests++
		part := 3 << 20
		if requests == 3 {
			part = len(image)
		}
		cutting(image, part, false)(w, r)
	}})
	if err != nil || !bytes.Equal(device.data[:n], image) || job.restarts != 1 {
		t.Errorf("got %d bytes, %d restarts, %v", n, job.restarts, err)
	}
}

func TestServerThatNeverSendsTheRest(t *testing.T) {
	image := sampleImage(8 << 20)
	device, _, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			cutting(image, 3<<20, true)(w, r)
			return
		}
		cutting(image, 0, true)(w, r)
	}})
	wantCode(t, device, err, Cut)
}

func TestFileOfAnotherLength(t *testing.T) {
	image := sampleImage(1 << 20)
	device, _, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", change: func(wanted *request) { wanted.Image.SizeBytes++ }})
	wantCode(t, device, err, Cut)
	device, _, _, err = transferTo(context.Background(), t, trial{file: image, format: "RAW", change: func(wanted *request) { wanted.Image.SizeBytes-- }})
	wantCode(t, device, err, Mismatch)
}

func TestServerThatStalls(t *testing.T) {
	image := sampleImage(1 << 20)
	device, job, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") == "" {
			w.Header().Set("ETag", `"v1"`)
			w.Header().Set("Content-Length", strconv.Itoa(len(image)))
			_, _ = w.Write(image[:1000])
			w.(http.Flusher).Flush()
		} else {
			cutting(image, 0, true)(w, r)
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}, change: func(wanted *request) { wanted.StallSeconds = 1 }})
	wantCode(t, device, err, Stalled)
	if job.stalls != 4 || !retried(err) {
		t.Errorf("got %d stalls, retried: %v", job.stalls, retried(err))
	}
}

func TestServerThatStallsAfterEachByteIsGivenUpByTheNumberOfStalls(t *testing.T) {
	image := sampleImage(1 << 20)
	device, job, _, err := transferTo(context.Background(), t, trial{file: image, format: "RAW", handler: func(w http.ResponseWriter, r *http.Request) {
		cutting(image, 1000, true)(w, r)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}, change: func(wanted *request) { wanted.StallSeconds = 1 }})
	wantCode(t, device, err, Stalled)
	if job.stalls != stallsMax || !retried(err) {
		t.Errorf("got %d stalls, retried: %v", job.stalls, retried(err))
	}
}

// retried: the agent reports that it has tried again, so that the service does not.
func retried(err error) bool {
	known, ok := err.(*task.Error)
	return ok && known.Retryable && known.Retried
}

func TestStatusOfTheServer(t *testing.T) {
	for status, attempts := range map[int]int{404: 1, 403: 1, 500: 4, 503: 4} {
		requests := 0
		device, _, _, err := transferTo(context.Background(), t, trial{file: []byte("x"), format: "RAW", handler: func(w http.ResponseWriter, _ *http.Request) {
			requests++
			w.WriteHeader(status)
		}})
		wantCode(t, device, err, Unreachable)
		if requests != attempts || err.(*task.Error).Retryable != (status >= 500) || retried(err) != (status >= 500) {
			t.Errorf("status %d: %d requests, %v", status, requests, err)
		}
	}
}

func TestRedirectsAreBoundedAndDoNotCarryTheBearer(t *testing.T) {
	var bearer string
	image := sampleImage(1 << 20)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer = r.Header.Get("Authorization")
		_, _ = w.Write(image)
	}))
	defer other.Close()
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/loop" {
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer from.Close()
	limits := options{stall: time.Second, patience: 0, now: time.Now, backoff: func(int) time.Duration { return 0 }}
	source := newStream(context.Background(), from.URL+"/image", "s.secret", nil, 0, limits)
	if n, err := source.Read(make([]byte, 100)); n == 0 || err != nil || bearer != "" {
		t.Errorf("got %d, %v, bearer %q", n, err, bearer)
	}
	source.close()
	if _, err := newStream(context.Background(), from.URL+"/loop", "", nil, 0, limits).Read(make([]byte, 100)); err == nil || !strings.Contains(err.Error(), "redirects") {
		t.Errorf("got %v", err)
	}
}

func TestCancelEndsATransferThatWaits(t *testing.T) {
	image := sampleImage(6 << 20)
	ctx, cancel := context.WithCancel(context.Background())
	device, _, _, err := transferTo(ctx, t, trial{file: image, format: "RAW", handler: func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(image)))
		_, _ = w.Write(image[:5<<20])
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
	}})
	if task.From(ctx, err).Code != task.Cancelled || !allZero(device.data[:disk.ChunkBytes]) {
		t.Errorf("got %v", err)
	}
}
