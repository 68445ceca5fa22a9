package main

import (
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"k8s.io/kubernetes/pkg/proxy/conntrack"
)

// fakeConntrack is a connection tracking table of UDP flows that notes what is deleted from it.
type fakeConntrack struct {
	entries []*netlink.ConntrackFlow
	flows   map[*netlink.ConntrackFlow]Flow
	deleted []Flow
}

var _ conntrack.Interface = &fakeConntrack{}

// set replaces the table and forgets what was deleted.
func (f *fakeConntrack) set(flows []Flow) {
	f.entries, f.deleted = nil, nil
	f.flows = map[*netlink.ConntrackFlow]Flow{}
	for _, flow := range flows {
		entry := flow.entry()
		f.entries = append(f.entries, entry)
		f.flows[entry] = flow
	}
}

func (flow Flow) entry() *netlink.ConntrackFlow {
	source, destination, reply := net.ParseIP(flow.Source), net.ParseIP(flow.Destination), net.ParseIP(flow.ReplySource)
	entry := &netlink.ConntrackFlow{
		FamilyType: unix.AF_INET,
		Forward: netlink.IPTuple{
			SrcIP: source, SrcPort: flow.SourcePort, DstIP: destination, DstPort: flow.DestinationPort, Protocol: unix.IPPROTO_UDP,
		},
		Reverse: netlink.IPTuple{
			SrcIP: reply, SrcPort: flow.ReplySourcePort, DstIP: source, DstPort: flow.SourcePort, Protocol: unix.IPPROTO_UDP,
		},
	}
	if destination.To4() == nil {
		entry.FamilyType = unix.AF_INET6
	}
	return entry
}

func (f *fakeConntrack) ListEntries(ipFamily uint8) ([]*netlink.ConntrackFlow, error) {
	var found []*netlink.ConntrackFlow
	for _, entry := range f.entries {
		if uint8(entry.FamilyType) == ipFamily {
			found = append(found, entry)
		}
	}
	return found, nil
}

func (f *fakeConntrack) DeleteEntries(_ uint8, entries []*netlink.ConntrackFlow) (int, error) {
	for _, entry := range entries {
		f.deleted = append(f.deleted, f.flows[entry])
	}
	return len(entries), nil
}
