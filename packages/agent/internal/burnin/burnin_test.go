package burnin

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"ostler-agent/internal/task"
)

func TestCPU(t *testing.T) {
	got, err := Run(context.Background(), json.RawMessage(`{"part":"CPU","seconds":1}`), func(int, string) {})
	if err != nil || got.(output).Checked == 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestUnknownPart(t *testing.T) {
	_, err := Run(context.Background(), json.RawMessage(`{"part":"FAN","seconds":1}`), func(int, string) {})
	if known, ok := err.(*task.Error); !ok || known.Code != task.Unsupported {
		t.Errorf("got %v", err)
	}
}

func TestMemoryPatternsDifferByRoundAndPlace(t *testing.T) {
	block := func(round, seed uint64) []byte {
		data := make([]byte, 2*pageBytes)
		fill(data, round, seed)
		return data
	}
	even, odd := block(0, 7), block(1, 7)
	for index := range even[:8] {
		if even[index] != ^odd[index] {
			t.Fatal("round 1 is not the inverse of round 0")
		}
	}
	if bytes.Equal(block(0, 7), block(0, 8)) || bytes.Equal(block(0, 7), block(2, 7)) {
		t.Error("equal patterns")
	}
}

func TestMemoryPassComparesAllThatItWrites(t *testing.T) {
	l := &load{until: time.Now().Add(time.Minute)}
	area := make([]byte, 2*blockBytes)
	l.passMemory(context.Background(), area, 3)
	if l.failure != nil || l.checked != uint64(len(area)) {
		t.Fatalf("got %v, %d", l.failure, l.checked)
	}
}
