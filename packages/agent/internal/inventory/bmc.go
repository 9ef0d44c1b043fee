package inventory

import (
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"ostler-agent/internal/disk"
)

// IPMI 2.0, and linux/ipmi.h.
const (
	ipmiDevice       = "/dev/ipmi0"
	ioctlSend        = 0x8028690D
	ioctlReceive     = 0xC030690B
	systemInterface  = 0x0C
	bmcChannel       = 0x0F
	netTransport     = 0x0C
	getLAN           = 0x02
	lanAddress       = 3
	lanMAC           = 5
	channelsMax      = 8
	ipmiTimeout      = 2 * time.Second
	ipmiPoll         = 20 * time.Millisecond
	ipmiAnswerBytes  = 64
	ipmiPageBytes    = 4096
	ipmiDataPlace    = 1024
	ipmiSystemBytes  = 8
	ipmiHeadOfAnswer = 2
)

type ipmiAddress struct {
	kind    int32
	channel int16
	lun     uint8
	_       [25]byte
}

type ipmiMessage struct {
	netfn, cmd uint8
	length     uint16
	_          uint32
	data       uintptr
}

type ipmiRequest struct {
	address       uintptr
	addressLength uint32
	_             uint32
	id            int64
	message       ipmiMessage
}

type ipmiReceived struct {
	kind          int32
	_             uint32
	address       uintptr
	addressLength uint32
	_             uint32
	id            int64
	message       ipmiMessage
}

// bmc returns the address of the machine's BMC, as seen from inside; nil if there is no driver for one.
func bmc() map[string]any {
	file, err := os.OpenFile(ipmiDevice, os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	for channel := byte(1); channel <= channelsMax; channel++ {
		address, err := lanParameter(file, channel, lanAddress)
		if err != nil || len(address) < 4 || net.IP(address[:4]).IsUnspecified() {
			continue
		}
		view := map[string]any{"address": net.IP(address[:4]).String(), "channel": channel}
		if mac, err := lanParameter(file, channel, lanMAC); err == nil && len(mac) >= 6 {
			view["mac"] = net.HardwareAddr(mac[:6]).String()
		}
		return view
	}
	return nil
}

func lanParameter(file *os.File, channel, parameter byte) ([]byte, error) {
	answer, err := ipmi(file, netTransport, getLAN, []byte{channel, parameter, 0, 0})
	if err != nil {
		return nil, err
	}
	return parseLAN(answer)
}

// parseLAN: completion code, revision of the parameter, its data.
func parseLAN(answer []byte) ([]byte, error) {
	if len(answer) < ipmiHeadOfAnswer || answer[0] != 0 {
		return nil, fmt.Errorf("the BMC has no such LAN parameter: %x", answer)
	}
	return answer[ipmiHeadOfAnswer:], nil
}

func ipmi(file *os.File, netfn, cmd byte, data []byte) ([]byte, error) {
	// The kernel is given addresses: they must not be such that Go moves.
	page, err := disk.Buffer(ipmiPageBytes)
	if err != nil {
		return nil, err
	}
	defer disk.Free(page)
	place := func(offset int) uintptr { return uintptr(unsafe.Pointer(&page[offset])) }
	*(*ipmiAddress)(unsafe.Pointer(&page[0])) = ipmiAddress{kind: systemInterface, channel: bmcChannel}
	copy(page[ipmiDataPlace:], data)
	request := ipmiRequest{
		address: place(0), addressLength: ipmiSystemBytes, id: time.Now().UnixNano(),
		message: ipmiMessage{netfn: netfn, cmd: cmd, length: uint16(len(data)), data: place(ipmiDataPlace)},
	}
	if err := ioctl(file, ioctlSend, unsafe.Pointer(&request)); err != nil {
		return nil, err
	}
	for begun := time.Now(); time.Since(begun) < ipmiTimeout; time.Sleep(ipmiPoll) {
		received := ipmiReceived{
			address: place(0), addressLength: uint32(unsafe.Sizeof(ipmiAddress{})),
			message: ipmiMessage{length: ipmiAnswerBytes, data: place(ipmiDataPlace)},
		}
		err := ioctl(file, ioctlReceive, unsafe.Pointer(&received))
		if err == syscall.EAGAIN {
			continue
		}
		if err != nil {
			return nil, err
		}
		if received.id == request.id {
			return append([]byte(nil), page[ipmiDataPlace:ipmiDataPlace+int(received.message.length)]...), nil
		}
	}
	return nil, fmt.Errorf("the BMC did not answer within %v", ipmiTimeout)
}

func ioctl(file *os.File, request uintptr, argument unsafe.Pointer) error {
	if _, _, number := syscall.Syscall(syscall.SYS_IOCTL, file.Fd(), request, uintptr(argument)); number != 0 {
		return number
	}
	return nil
}
