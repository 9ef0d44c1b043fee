package image

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ostler-agent/internal/task"
)

const (
	longestBackoff = 5 * time.Second
	redirectsMax   = 5
	// brokenMax bounds the connections of one image, also if each brings some bytes; stallsMax those of them that ended
	// after a wait in vain.
	brokenMax = 100
	stallsMax = 10
)

// errRestart: the server cannot go on where the connection broke, so the image is fetched from its first byte.
var errRestart = errors.New("the image must be fetched again from its beginning")

// errRedirect: the server redirects to where the agent does not follow, which time does not change.
var errRedirect = errors.New("redirects that are not followed")

// stream is the file as it comes over the network, over as many connections as it needs.
type stream struct {
	ctx      context.Context
	client   *http.Client
	address  string
	bearer   string
	expected int64
	options  options

	offset    int64
	total     int64
	validator string
	body      io.ReadCloser
	watchdog  *time.Timer
	stalled   chan struct{}
	end       context.CancelFunc
	// row counts failures since the last byte that arrived, and heard is when it did.
	row    int
	heard  time.Time
	broken int
	stalls int
	fatal  error
	// last is how a connection broke last.
	last error
	done bool
}

// options are the limits of a transfer.
type options struct {
	// stall without a byte breaks a connection; patience without a byte, over all connections, ends the transfer.
	stall    time.Duration
	patience time.Duration
	now      func() time.Time
	// backoff waits before another connection, by the number of failures in a row.
	backoff func(row int) time.Duration
}

// newClient trusts the authorities of the medium without a trust.
func newClient(stall time.Duration, trust *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: stall}).DialContext,
			TLSClientConfig:       trust,
			TLSHandshakeTimeout:   stall,
			ResponseHeaderTimeout: stall,
			// Without it Go would unpack a .gz that is served with Content-Encoding, and the checksum would not match.
			DisableCompression: true,
		},
		CheckRedirect: func(request *http.Request, earlier []*http.Request) error {
			if len(earlier) > redirectsMax {
				return fmt.Errorf("%w: more than %d", errRedirect, redirectsMax)
			}
			if request.URL.Scheme != "http" && request.URL.Scheme != "https" {
				return fmt.Errorf("%w: to %s", errRedirect, request.URL.Scheme)
			}
			if request.URL.Host != earlier[0].URL.Host {
				request.Header.Del("Authorization")
			}
			return nil
		},
	}
}

func newStream(ctx context.Context, address, bearer string, trust *tls.Config, expected int64, limits options) *stream {
	return &stream{
		ctx: ctx, client: newClient(limits.stall, trust), address: address, bearer: bearer,
		expected: expected, options: limits, total: -1, heard: limits.now(),
	}
}

// Read returns io.EOF only when the whole file has come.
func (s *stream) Read(buffer []byte) (int, error) {
	if s.done {
		return 0, io.EOF
	}
	for s.fatal == nil {
		if s.body == nil {
			if err := s.open(); err != nil {
				s.fail(err)
				continue
			}
		}
		s.watchdog.Reset(s.options.stall)
		n, err := s.body.Read(buffer)
		s.watchdog.Stop()
		if n > 0 {
			s.offset += int64(n)
			s.row, s.heard = 0, s.options.now()
			return n, nil
		}
		if err == io.EOF && s.complete() {
			s.close()
			s.done = true
			return 0, io.EOF
		}
		if err != nil {
			s.fail(s.brokenBy(err))
		}
	}
	return 0, s.fatal
}

func (s *stream) complete() bool {
	switch {
	case s.total >= 0:
		return s.offset >= s.total
	case s.expected > 0:
		return s.offset >= s.expected
	}
	return true
}

func (s *stream) brokenBy(err error) error {
	select {
	case <-s.stalled:
		return task.FailRetryable(Stalled, "No byte came from %s for %v, after %d bytes.", s.name(), s.options.stall, s.offset)
	default:
		return task.FailRetryable(Cut, "The connection to %s broke after %d of %d bytes: %s.", s.name(), s.offset, s.length(), reason(err))
	}
}

// fail decides whether there is another try; if not, the stream ends with the error. The tries end with time, and not
// with their number: one connection can wait for long, and another fail at once.
func (s *stream) fail(err error) {
	s.close()
	if s.ctx.Err() != nil {
		s.fatal = s.ctx.Err()
		return
	}
	var known *task.Error
	final := err == errRestart || errors.As(err, &known) && !known.Retryable
	if err != errRestart {
		s.last = err
	}
	s.row++
	s.broken++
	if known != nil && known.Code == Stalled {
		s.stalls++
	}
	if final || known == nil {
		s.fatal = err
		return
	}
	if s.options.now().Sub(s.heard) >= s.options.patience || s.broken >= brokenMax || s.stalls >= stallsMax {
		s.fatal = task.Exhausted(known)
		return
	}
	select {
	case <-s.ctx.Done():
		s.fatal = s.ctx.Err()
	case <-time.After(s.options.backoff(s.row)):
	}
}

func (s *stream) open() error {
	ctx, cancel := context.WithCancel(s.ctx)
	stalled := make(chan struct{})
	s.end, s.stalled = cancel, stalled
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address, nil)
	if err != nil {
		return task.Fail(Unreachable, "The image has no usable address: %v.", reason(err))
	}
	if s.bearer != "" {
		request.Header.Set("Authorization", "Bearer "+s.bearer)
	}
	if s.offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.offset))
		if s.validator != "" {
			request.Header.Set("If-Range", s.validator)
		}
	}
	response, err := s.client.Do(request)
	if errors.Is(err, errRedirect) {
		return task.Fail(Unreachable, "%s cannot be fetched: %s. Check the address of the image.", s.name(), reason(err))
	}
	if err != nil {
		return task.FailRetryable(Unreachable, "No content came from %s: %s.", s.name(), reason(err))
	}
	if err := s.accept(response); err != nil {
		response.Body.Close()
		return err
	}
	s.body = response.Body
	s.watchdog = time.AfterFunc(s.options.stall, func() {
		close(stalled)
		cancel()
	})
	return nil
}

func (s *stream) accept(response *http.Response) error {
	switch status := response.StatusCode; {
	case status == http.StatusOK && s.offset > 0, status == http.StatusRequestedRangeNotSatisfiable:
		return errRestart
	case status == http.StatusOK:
		s.total = response.ContentLength
		s.validator = validator(response.Header)
		return s.checkLength()
	case status == http.StatusPartialContent:
		start, total := contentRange(response.Header.Get("Content-Range"))
		if start != s.offset || (s.total >= 0 && total >= 0 && total != s.total) {
			return errRestart
		}
		return nil
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return task.FailRetryable(Unreachable, "%s answered with status %d.", s.name(), status)
	default:
		return task.Fail(Unreachable, "%s answered with status %d. Check the address of the image.", s.name(), status)
	}
}

func (s *stream) checkLength() error {
	if s.expected <= 0 || s.total < 0 || s.total == s.expected {
		return nil
	}
	if s.total < s.expected {
		return task.Fail(Cut, "%s has %d bytes, fewer than the image's %d. The file is incomplete.", s.name(), s.total, s.expected)
	}
	return task.Fail(Mismatch, "%s has %d bytes, more than the image's %d. It is another file.", s.name(), s.total, s.expected)
}

func (s *stream) close() {
	if s.watchdog != nil {
		s.watchdog.Stop()
	}
	if s.body != nil {
		s.body.Close()
		s.body = nil
	}
	if s.end != nil {
		s.end()
	}
}

func (s *stream) length() int64 {
	if s.total >= 0 {
		return s.total
	}
	return s.expected
}

// name is the address without what can be secret in it.
func (s *stream) name() string {
	parsed, err := url.Parse(s.address)
	if err != nil {
		return "the image's address"
	}
	return parsed.Scheme + "://" + parsed.Host + parsed.EscapedPath()
}

// reason removes the address, which can contain a secret, from an error of Go's client.
func reason(err error) string {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err.Error()
	}
	return err.Error()
}

// validator is what If-Range takes. A weak ETag does not promise equal bytes.
func validator(header http.Header) string {
	if tag := header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return header.Get("Last-Modified")
}

// contentRange reads "bytes 100-199/1000". Unknown numbers are -1.
func contentRange(value string) (start, total int64) {
	unit, rest, _ := strings.Cut(value, " ")
	if unit != "bytes" {
		return -1, -1
	}
	span, size, _ := strings.Cut(rest, "/")
	from, _, _ := strings.Cut(span, "-")
	return parsed(from), parsed(size)
}

func parsed(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return value
}
