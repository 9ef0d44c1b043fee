package lldp

import (
	"encoding/binary"
	"testing"
)

func tlv(kind int, value string) string {
	head := make([]byte, 2)
	binary.BigEndian.PutUint16(head, uint16(kind<<9|len(value)))
	return string(head) + value
}

const ethernet = "\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc"

func TestFrame(t *testing.T) {
	frame := ethernet + tlv(1, "\x04\x02\x00\x00\x00\x00\x01") + tlv(2, "\x05Ethernet1/7") + tlv(3, "\x00\x78") +
		tlv(4, "rack 1 u 7") + tlv(5, "switch-7\n") + tlv(127, "\x00\x80\xc2\x01\x00\x64") + tlv(0, "")
	got, ok := parse([]byte(frame))
	want := Neighbour{ChassisID: "02:00:00:00:00:01", PortID: "Ethernet1/7", PortDescription: "rack 1 u 7", SystemName: "switch-7\\x0a", VLAN: 100}
	if !ok || got != want {
		t.Errorf("got %+v", got)
	}
}

func TestBrokenFrames(t *testing.T) {
	whole := ethernet + tlv(1, "\x04\x02\x00\x00\x00\x00\x01") + tlv(2, "\x05Ethernet1/7")
	for length := 0; length <= len(whole); length++ {
		parse([]byte(whole[:length]))
	}
	if _, ok := parse([]byte(ethernet + tlv(5, "a switch without a name of its own"))); ok {
		t.Error("a frame without a chassis was taken")
	}
}
