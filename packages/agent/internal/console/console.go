// Package console prints what the agent does on every console of the machine. Secrets must not be printed.
package console

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Console writes lines to all consoles.
type Console struct {
	mutex sync.Mutex
	files []*os.File
}

// Open opens the screen, the first serial port, and what the kernel uses. One that does not exist is passed over.
func Open() *Console {
	names := []string{"tty0", "ttyS0"}
	active, _ := os.ReadFile("/sys/class/tty/console/active")
	for _, name := range strings.Fields(string(active)) {
		if name != "tty0" && name != "ttyS0" {
			names = append(names, name)
		}
	}
	out := &Console{}
	for _, name := range names {
		// A serial port whose other end does not take anything must not stop the agent.
		file, err := os.OpenFile("/dev/"+name, os.O_WRONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if err == nil {
			out.files = append(out.files, file)
		}
	}
	return out
}

// Printf prints one line, with the seconds since the machine was started.
func (c *Console) Printf(format string, values ...any) {
	var info syscall.Sysinfo_t
	_ = syscall.Sysinfo(&info)
	line := fmt.Sprintf("[%5d s] ostler-agent: %s\r\n", info.Uptime, fmt.Sprintf(format, values...))
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, file := range c.files {
		_ = file.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = file.WriteString(line)
	}
}
