package image

import (
	"context"
	"errors"
	"io"

	"ostler-agent/internal/disk"
	"ostler-agent/internal/task"
)

// target is the disk, or a file in tests.
type target interface {
	WriteAt(buffer []byte, offset int64) (int, error)
	ZeroOut(offset, length uint64) error
}

// written is what copyToDisk has done.
type written struct {
	bytes uint64
	// head is the first part of the image, which is not on the disk yet. It belongs to Buffer.
	head []byte
}

// chunk goes from the reader to the writer.
type chunk struct {
	buffer []byte
	length int
	err    error
}

const (
	buffersMax = 3
	tailBytes  = 1 << 20
)

// invalidate removes what could be started from the disk while it holds half an image: the partition tables of an
// earlier system, at both ends.
func invalidate(device target, space uint64) error {
	head := min(disk.ChunkBytes, space)
	if err := device.ZeroOut(0, head); err != nil {
		return err
	}
	tail := min(tailBytes, space)
	return device.ZeroOut(space-tail, tail)
}

// copyToDisk writes everything but the first chunk, which is returned: it is written when the checksum is known to be
// right, so that no machine starts from an image that is not what the service meant.
func copyToDisk(ctx context.Context, source io.Reader, device target, space, sector uint64) (written, error) {
	free := make(chan []byte, buffersMax)
	buffers := make([][]byte, 0, buffersMax)
	for len(buffers) < buffersMax {
		buffer, err := disk.Buffer(disk.ChunkBytes)
		if err != nil {
			return written{}, err
		}
		buffers = append(buffers, buffer)
		free <- buffer
	}
	ctx, cancel := context.WithCancel(ctx)
	full := make(chan chunk)
	go readChunks(ctx, source, free, full)
	result, err := writeChunks(ctx, full, free, device, space, sector)
	cancel()
	for range full {
		// The reader ends before its buffers are given back.
	}
	for _, buffer := range buffers {
		if len(result.head) == 0 || &buffer[0] != &result.head[0] {
			disk.Free(buffer)
		}
	}
	return result, err
}

func readChunks(ctx context.Context, source io.Reader, free <-chan []byte, full chan<- chunk) {
	defer close(full)
	for {
		var buffer []byte
		select {
		case buffer = <-free:
		case <-ctx.Done():
			return
		}
		n, err := io.ReadFull(source, buffer)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		select {
		case full <- chunk{buffer, n, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func writeChunks(ctx context.Context, full <-chan chunk, free chan<- []byte, device target, space, sector uint64) (written, error) {
	var result written
	for {
		var next chunk
		select {
		case <-ctx.Done():
			return result, ctx.Err()
		case next = <-full:
		}
		if next.err != nil && next.err != io.EOF {
			return result, next.err
		}
		if result.bytes+uint64(next.length) > space {
			return result, task.Fail(TooLarge, "The image is larger than the disk, which has %d bytes.", space)
		}
		data := padded(next.buffer, next.length, sector)
		switch {
		case next.length == 0:
		case result.head == nil:
			result.head = data
		default:
			if err := writeChunk(device, data, result.bytes); err != nil {
				return result, task.Fail(WriteFailed, "Writing at byte %d failed: %v.", result.bytes, err)
			}
			free <- next.buffer
		}
		result.bytes += uint64(next.length)
		if next.err == io.EOF {
			return result, nil
		}
	}
}

// padded fills the last sector with zeros.
func padded(buffer []byte, length int, sector uint64) []byte {
	whole := (length + int(sector) - 1) / int(sector) * int(sector)
	for index := length; index < whole; index++ {
		buffer[index] = 0
	}
	return buffer[:whole]
}

func writeChunk(device target, data []byte, offset uint64) error {
	if allZero(data) {
		return device.ZeroOut(offset, uint64(len(data)))
	}
	n, err := device.WriteAt(data, int64(offset))
	if err == nil && n != len(data) {
		err = errors.New("fewer bytes were written than given")
	}
	return err
}

func allZero(data []byte) bool {
	for _, value := range data {
		if value != 0 {
			return false
		}
	}
	return true
}

func min(a, b uint64) uint64 {
	if a < b {
		return a
	}
	return b
}
