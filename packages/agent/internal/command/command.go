// Package command runs the programs of the ramdisk so that a cancelled task leaves none behind.
package command

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// KillWait is how long a killed program may take to end. One that waits for a drive cannot be ended at all.
const KillWait = time.Second

const messageBytes = 300

// Result is what a program printed, and its exit status.
type Result struct {
	Stdout []byte
	Stderr []byte
	Status int
}

// Prepare makes a command whose whole process group can be killed.
func Prepare(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Kill ends a started command with all its children.
func Kill(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// Output runs a program to its end. A status other than 0 is not an error here: programs such as smartctl use it for findings.
func Output(ctx context.Context, name string, args ...string) (Result, error) {
	var stdout, stderr bytes.Buffer
	cmd := Prepare(name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return Result{}, fmt.Errorf("%s cannot be started: %w", name, err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		result := Result{stdout.Bytes(), stderr.Bytes(), cmd.ProcessState.ExitCode()}
		if _, exited := err.(*exec.ExitError); err != nil && !exited {
			return result, fmt.Errorf("%s: %w", name, err)
		}
		return result, nil
	case <-ctx.Done():
		Kill(cmd)
		select {
		case <-done:
		case <-time.After(KillWait):
		}
		return Result{}, ctx.Err()
	}
}

// Run is Output for a program whose status must be 0.
func Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	result, err := Output(ctx, name, args...)
	if err == nil && result.Status != 0 {
		err = fmt.Errorf("%s ended with status %d: %s", name, result.Status, result.Message())
	}
	return result.Stdout, err
}

// Message is the end of what the program printed, on one line.
func (r Result) Message() string {
	text := strings.Join(strings.Fields(string(r.Stderr)+" "+string(r.Stdout)), " ")
	if len(text) > messageBytes {
		text = text[len(text)-messageBytes:]
	}
	return text
}
