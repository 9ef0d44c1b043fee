package agent

import (
	"context"
	"encoding/json"
	"syscall"
	"time"

	"ostler-agent/internal/burnin"
	"ostler-agent/internal/configure"
	"ostler-agent/internal/erase"
	"ostler-agent/internal/image"
	"ostler-agent/internal/inventory"
	"ostler-agent/internal/service"
	"ostler-agent/internal/task"
)

// clockTolerance: certificates of image servers are checked against the machine's clock, which can be years off.
const clockTolerance = 5 * time.Minute

// Machine is what the agent does on a real machine.
func Machine(client *service.Client) Tasks {
	return Tasks{
		"write_image": func(ctx context.Context, args json.RawMessage, progress task.Progress) (any, error) {
			return image.Write(ctx, args, client.Resolve, progress)
		},
		"inventory": inventory.New().Run,
		"erase":     erase.Run,
		"burn_in":   burnin.Run,
		"configure": configure.Run,
	}
}

func powerOff() {
	syscall.Sync()
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	// Not reached, unless the kernel cannot switch the machine off.
	for {
		time.Sleep(time.Hour)
	}
}

func setClock(date time.Time) {
	difference := time.Since(date)
	if difference < clockTolerance && difference > -clockTolerance {
		return
	}
	value := syscall.NsecToTimeval(date.UnixNano())
	_ = syscall.Settimeofday(&value)
}
