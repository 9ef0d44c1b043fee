// Package task has what all tasks share: errors with a code that the service knows, and the report of progress.
package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// Codes of errors that any task can return. Others stand beside the task that returns them.
const (
	Cancelled   = "CANCELLED"
	Internal    = "INTERNAL"
	Unsupported = "UNSUPPORTED"
)

// Error is what the service receives of a task that failed.
type Error struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`
	// Retried: the agent has already tried again for as long as makes sense, so the service does not.
	Retried bool `json:"retried,omitempty"`
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Fail returns an error that a second try would not change.
func Fail(code, format string, values ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...)}
}

// FailRetryable returns an error that a second try may not meet.
func FailRetryable(code, format string, values ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, values...), Retryable: true}
}

// Exhausted returns the error of the last try: the agent has tried again, and the service does not.
func Exhausted(known *Error) error {
	final := *known
	final.Retried = final.Retryable
	return &final
}

// From turns any error into one that the service knows. A cancelled context comes first: it is the cause of what else
// went wrong.
func From(ctx context.Context, err error) *Error {
	if ctx.Err() != nil {
		return &Error{Code: Cancelled, Message: "The task was cancelled."}
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	return &Error{Code: Internal, Message: err.Error()}
}

// Progress receives what a task has done. It may be called from several goroutines, as often as a task likes.
type Progress func(percent int, message string)

// Task is what the service asks for.
type Task struct {
	ID   string          `json:"id"`
	Kind string          `json:"kind"`
	Args json.RawMessage `json:"args"`
}

// Decode reads the arguments of a task. Members that the agent does not know are passed over, so that a newer service
// can give a hint to an older agent.
func Decode(args json.RawMessage, into any) error {
	if len(args) == 0 {
		return nil
	}
	if err := json.Unmarshal(args, into); err != nil {
		return Fail(Unsupported, "The arguments of the task cannot be read: %v.", err)
	}
	return nil
}
