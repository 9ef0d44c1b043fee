// Package lldp hears what the switches at the machine's ports say about themselves: IEEE 802.1AB.
package lldp

import (
	"encoding/binary"
	"fmt"
	"net"
	"sort"
	"sync"
	"syscall"
	"time"

	"ostler-agent/internal/network"
)

const (
	etherType   = 0x88CC
	headBytes   = 14
	frameBytes  = 2048
	scanEvery   = 5 * time.Second
	waitEvery   = 200 * time.Millisecond
	memberBytes = 16
	allMulti    = 2 // PACKET_MR_ALLMULTI
	addMember   = 1 // PACKET_ADD_MEMBERSHIP
	solPacket   = 263
)

// Neighbour is the other end of a cable.
type Neighbour struct {
	Interface       string `json:"interface"`
	ChassisID       string `json:"chassisId,omitempty"`
	PortID          string `json:"portId,omitempty"`
	PortDescription string `json:"portDescription,omitempty"`
	SystemName      string `json:"systemName,omitempty"`
	VLAN            uint16 `json:"vlan,omitempty"`
}

// Listener collects the newest frame of each port from the start of the agent: switches send every 30 seconds.
type Listener struct {
	mutex sync.Mutex
	heard map[string]Neighbour
	ports map[string]bool
}

// Listen begins.
func Listen() *Listener {
	l := &Listener{heard: map[string]Neighbour{}, ports: map[string]bool{}}
	go func() {
		for {
			for _, port := range network.Ports() {
				if !l.ports[port.Name] {
					l.ports[port.Name] = true
					go l.hear(port.Name)
				}
			}
			time.Sleep(scanEvery)
		}
	}()
	return l
}

// Neighbours waits up to a limit for a port whose switch has not been heard.
func (l *Listener) Neighbours(limit time.Duration, done <-chan struct{}) []Neighbour {
	deadline := time.Now().Add(limit)
	for {
		l.mutex.Lock()
		list := []Neighbour{}
		for _, each := range l.heard {
			list = append(list, each)
		}
		l.mutex.Unlock()
		if len(list) >= len(network.Ports()) || !time.Now().Before(deadline) {
			sort.Slice(list, func(a, b int) bool { return list[a].Interface < list[b].Interface })
			return list
		}
		select {
		case <-done:
			return list
		case <-time.After(waitEvery):
		}
	}
}

func (l *Listener) hear(name string) {
	for {
		if socket, err := open(name); err == nil {
			l.receive(socket, name)
			_ = syscall.Close(socket)
		}
		time.Sleep(scanEvery)
	}
}

func bigEndian(value uint16) uint16 { return value<<8 | value>>8 }

func open(name string) (int, error) {
	device, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	socket, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, int(bigEndian(etherType)))
	if err != nil {
		return 0, err
	}
	if err := syscall.Bind(socket, &syscall.SockaddrLinklayer{Protocol: bigEndian(etherType), Ifindex: device.Index}); err != nil {
		_ = syscall.Close(socket)
		return 0, err
	}
	// struct packet_mreq: the network card passes on frames to the group of LLDP.
	member := make([]byte, memberBytes)
	binary.LittleEndian.PutUint32(member, uint32(device.Index))
	binary.LittleEndian.PutUint16(member[4:], allMulti)
	_ = syscall.SetsockoptString(socket, solPacket, addMember, string(member))
	return socket, nil
}

func (l *Listener) receive(socket int, name string) {
	buffer := make([]byte, frameBytes)
	for {
		n, _, err := syscall.Recvfrom(socket, buffer, 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return
		}
		if neighbour, ok := parse(buffer[:n]); ok {
			neighbour.Interface = name
			l.mutex.Lock()
			l.heard[name] = neighbour
			l.mutex.Unlock()
		}
	}
}

// parse reads a frame with its Ethernet header.
func parse(frame []byte) (Neighbour, bool) {
	var found Neighbour
	if len(frame) < headBytes || binary.BigEndian.Uint16(frame[12:]) != etherType {
		return found, false
	}
	for rest := frame[headBytes:]; len(rest) >= 2; {
		head := binary.BigEndian.Uint16(rest)
		length := int(head & 0x1FF)
		if len(rest) < 2+length {
			break
		}
		value := rest[2 : 2+length]
		rest = rest[2+length:]
		switch head >> 9 {
		case 0:
			return found, found.ChassisID != ""
		case 1:
			found.ChassisID = identifier(value, 4)
		case 2:
			found.PortID = identifier(value, 3)
		case 4:
			found.PortDescription = printable(value)
		case 5:
			found.SystemName = printable(value)
		case 127:
			// The port's VLAN, of IEEE 802.1.
			if len(value) >= 6 && value[0] == 0 && value[1] == 0x80 && value[2] == 0xC2 && value[3] == 1 {
				found.VLAN = binary.BigEndian.Uint16(value[4:])
			}
		}
	}
	return found, found.ChassisID != ""
}

// identifier: the first byte is its kind. That of a MAC address differs between chassis and port.
func identifier(value []byte, macKind byte) string {
	if len(value) < 2 {
		return ""
	}
	if value[0] == macKind && len(value) == 7 {
		return net.HardwareAddr(value[1:]).String()
	}
	return printable(value[1:])
}

// printable: a frame is input from outside.
func printable(value []byte) string {
	out := ""
	for _, character := range value {
		if character >= 0x20 && character < 0x7F {
			out += string(rune(character))
		} else if character != 0 {
			out += fmt.Sprintf("\\x%02x", character)
		}
	}
	return out
}
