package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"ostler-agent/internal/command"
	"ostler-agent/internal/task"
)

// unpackers are programs of the ramdisk. zstd needs the memory for images that were packed with --long=30.
var unpackers = map[string][]string{
	"RAW_XZ":  {"xz", "--decompress", "--stdout", "--quiet", "--threads=0"},
	"RAW_ZST": {"zstd", "--decompress", "--stdout", "--quiet", "--long=30"},
}

// unpack returns the bytes of the disk. The format is what the image's record says; it is never guessed.
func unpack(ctx context.Context, format string, packed io.Reader) (io.ReadCloser, error) {
	switch format {
	case "RAW":
		return io.NopCloser(packed), nil
	case "RAW_GZ":
		return &gunzip{source: packed}, nil
	case "RAW_XZ", "RAW_ZST":
		return startUnpacker(ctx, unpackers[format], packed)
	}
	return nil, task.Fail(task.Unsupported, "The format %q of the image is unknown to this agent.", format)
}

// gunzip begins with the first read, because the header comes over the network.
type gunzip struct {
	source io.Reader
	reader *gzip.Reader
}

func (g *gunzip) Read(buffer []byte) (int, error) {
	if g.reader == nil {
		reader, err := gzip.NewReader(g.source)
		if err != nil {
			return 0, fmt.Errorf("gzip: %w", err)
		}
		g.reader = reader
	}
	n, err := g.reader.Read(buffer)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("gzip: %w", err)
	}
	return n, err
}

func (g *gunzip) Close() error { return nil }

// unpacker is a program between two pipes.
type unpacker struct {
	cmd    *exec.Cmd
	output io.ReadCloser
	stderr bytes.Buffer
	stop   func()
	ended  bool
}

func startUnpacker(ctx context.Context, program []string, packed io.Reader) (*unpacker, error) {
	u := &unpacker{cmd: command.Prepare(program[0], program[1:]...)}
	u.cmd.Stderr = &u.stderr
	input, err := u.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if u.output, err = u.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := u.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", program[0], err)
	}
	go func() {
		// An error of the source is kept by the source; the program then meets the end of its input.
		_, _ = io.Copy(input, packed)
		input.Close()
	}()
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			command.Kill(u.cmd)
		case <-ended:
		}
	}()
	u.stop = func() { close(ended) }
	return u, nil
}

func (u *unpacker) Read(buffer []byte) (int, error) {
	n, err := u.output.Read(buffer)
	if err != io.EOF {
		return n, err
	}
	if waitErr := u.wait(); waitErr != nil {
		return n, waitErr
	}
	return n, io.EOF
}

func (u *unpacker) wait() error {
	if u.ended {
		return nil
	}
	u.ended = true
	u.stop()
	if err := u.cmd.Wait(); err != nil {
		text := strings.Join(strings.Fields(u.stderr.String()), " ")
		return fmt.Errorf("%s: %v: %.300s", u.cmd.Args[0], err, text)
	}
	return nil
}

// Close ends the program if it is not done.
func (u *unpacker) Close() error {
	command.Kill(u.cmd)
	_ = u.wait()
	return nil
}
