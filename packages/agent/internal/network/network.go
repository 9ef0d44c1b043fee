// Package network brings up every port of the machine: by DHCP, or one of them as the session says. It never gives up,
// because a cable or a DHCP server can come later.
package network

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"ostler-agent/internal/command"
	"ostler-agent/internal/console"
	"ostler-agent/internal/session"
)

const (
	scanEvery  = 2 * time.Second
	classPath  = "/sys/class/net"
	dhcpScript = "/etc/ostler/udhcpc"
)

// Port is a network port of the machine.
type Port struct {
	Name string
	MAC  string
}

// Ports lists what has hardware below it. USB ports are left out: they are the BMC's own link to the machine, whose
// default route leads nowhere.
func Ports() []Port { return portsBelow(classPath) }

func portsBelow(root string) []Port {
	entries, _ := os.ReadDir(root)
	var ports []Port
	for _, entry := range entries {
		device, err := filepath.EvalSymlinks(filepath.Join(root, entry.Name(), "device"))
		if err != nil || strings.Contains(device, "/usb") {
			continue
		}
		address, _ := os.ReadFile(filepath.Join(root, entry.Name(), "address"))
		ports = append(ports, Port{entry.Name(), strings.ToLower(strings.TrimSpace(string(address)))})
	}
	return ports
}

// Run configures the ports that it finds, and those that appear later.
func Run(document *session.Document, out *console.Console) {
	known := map[string]bool{}
	waiting := false
	for {
		for _, port := range Ports() {
			if known[port.Name] {
				continue
			}
			known[port.Name] = true
			if document != nil && document.Network != nil {
				go static(port, document.Network, out)
			} else {
				go dhcp(port)
			}
		}
		if len(known) == 0 && !waiting {
			waiting = true
			out.Printf("no network port with a driver has been found; looking again every %v", scanEvery)
		}
		time.Sleep(scanEvery)
	}
}

func dhcp(port Port) {
	for {
		// The client itself repeats its requests without end.
		cmd := exec.Command("/bin/busybox", "udhcpc", "-f", "-i", port.Name, "-s", dhcpScript, "-t", "3", "-T", "2", "-A", "5")
		_ = cmd.Run()
		time.Sleep(time.Second)
	}
}

func static(port Port, wanted *session.Network, out *console.Console) {
	if _, err := ip("link", "set", port.Name, "up"); err != nil {
		out.Printf("port %s: %v", port.Name, err)
	}
	if port.MAC != strings.ToLower(wanted.MAC) {
		return
	}
	for {
		err := apply(port, wanted)
		if err == nil {
			return
		}
		out.Printf("port %s cannot be configured: %v", port.Name, err)
		time.Sleep(scanEvery)
	}
}

func apply(port Port, wanted *session.Network) error {
	if _, err := ip("addr", "replace", wanted.Address, "dev", port.Name); err != nil {
		return err
	}
	if wanted.Gateway != "" {
		// onlink: a provider's gateway can be outside of the network of the address.
		_, err := ip("route", "replace", "default", "via", wanted.Gateway, "dev", port.Name, "onlink")
		if err != nil {
			return err
		}
	}
	var names strings.Builder
	for _, server := range wanted.DNS {
		fmt.Fprintf(&names, "nameserver %s\n", server)
	}
	return os.WriteFile("/run/resolv.conf", []byte(names.String()), 0o644)
}

func ip(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return command.Run(ctx, "/bin/busybox", append([]string{"ip"}, args...)...)
}
