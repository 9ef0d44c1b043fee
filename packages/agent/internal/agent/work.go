package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"ostler-agent/internal/service"
	"ostler-agent/internal/task"
)

// cancelWait is how long a cancelled task may take to end.
const cancelWait = time.Second

// Tasks does what the service asks for, by the kind of the task.
type Tasks map[string]func(context.Context, json.RawMessage, task.Progress) (any, error)

// work is a task in a goroutine of its own.
type work struct {
	task   task.Task
	cancel context.CancelFunc
	done   chan struct{}

	mutex   sync.Mutex
	percent int
	message string
	outcome *service.Result
}

func begin(tasks Tasks, wanted task.Task) *work {
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{task: wanted, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		w.finish(perform(ctx, tasks, wanted, w.progress))
	}()
	return w
}

func perform(ctx context.Context, tasks Tasks, wanted task.Task, progress task.Progress) (result service.Result) {
	result.Task = wanted.ID
	defer func() {
		if cause := recover(); cause != nil {
			result = service.Result{Task: wanted.ID, Error: &task.Error{
				Code: task.Internal, Message: fmt.Sprintf("The agent failed: %v at %.600s", cause, debug.Stack()),
			}}
		}
	}()
	do, known := tasks[wanted.Kind]
	if !known {
		result.Error = task.From(ctx, task.Fail(task.Unsupported, "This agent has no task %q. Build newer boot media.", wanted.Kind))
		return result
	}
	output, err := do(ctx, wanted.Args, progress)
	if err == nil {
		result.Output, err = json.Marshal(output)
	}
	if err != nil {
		result.Output, result.Error = nil, task.From(ctx, err)
		return result
	}
	result.OK = true
	return result
}

func (w *work) progress(percent int, message string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.percent, w.message = percent, message
}

func (w *work) activity() *service.Activity {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return &service.Activity{ID: w.task.ID, Percent: w.percent, Message: w.message}
}

func (w *work) result() *service.Result {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.outcome
}

// finish keeps the first result: an abandoned task may end later.
func (w *work) finish(result service.Result) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.outcome == nil {
		w.outcome = &result
		close(w.done)
	}
}

func (w *work) abandon() {
	w.finish(service.Result{Task: w.task.ID, Error: &task.Error{
		Code:    task.Cancelled,
		Message: "The task was cancelled. " + w.activity().Message + " could not be stopped and goes on in the drive.",
	}})
}
