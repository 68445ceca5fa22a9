package main

import (
	"context"
	"fmt"
	"net"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy/conntrack"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/ipvs"
	ipsettest "k8s.io/kubernetes/pkg/proxy/ipvs/ipset/testing"
	netlinktest "k8s.io/kubernetes/pkg/proxy/ipvs/testing"
	ipvstest "k8s.io/kubernetes/pkg/proxy/ipvs/util/testing"
	"k8s.io/kubernetes/pkg/proxy/metaproxier"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	iptablestest "k8s.io/kubernetes/pkg/util/iptables/testing"
)

// IPVSState is what both proxiers have written to the kernel, and to the health check ports.
type IPVSState struct {
	// VirtualServers is keyed by "TCP 10.96.0.1:80".
	VirtualServers map[string]VirtualServer `json:"virtualServers"`
	// Sets has the entries of each set, sorted.
	Sets map[string][]string `json:"sets"`
	// Addresses has those bound to kube-ipvs0, sorted.
	Addresses []string `json:"addresses"`
	// HealthChecks is keyed by "IPv4 default/name".
	HealthChecks map[string]HealthCheck `json:"healthChecks"`
	// DeletedFlows has the flows that the sync deleted.
	DeletedFlows []Flow `json:"deletedFlows"`
}

// VirtualServer is one of IPVS. Its real servers are keyed by "10.244.0.1:8080" and have their weights.
type VirtualServer struct {
	Scheduler   string         `json:"scheduler"`
	Flags       uint32         `json:"flags"`
	Timeout     uint32         `json:"timeout"`
	RealServers map[string]int `json:"realServers"`
}

// sysctls accepts every value and says that it is there.
type sysctls struct{}

func (sysctls) GetSysctl(string) (int, error) { return 1, nil }
func (sysctls) SetSysctl(string, int) error   { return nil }

// ipvsNode is the kernel of a node in memory, with the two proxiers that write it.
type ipvsNode struct {
	virtualServers *ipvstest.FakeIPVS
	sets           *ipsettest.FakeIPSet
	links          map[v1.IPFamily]*netlinktest.FakeNetlinkHandle
	health         map[v1.IPFamily]*healthServer
	flows          *fakeConntrack
	proxiers       map[v1.IPFamily]*ipvs.Proxier
}

func playIPVS(c *Case) (any, error) {
	node, err := newIPVSNode(c)
	if err != nil {
		return nil, err
	}
	// As NewDualStackProxier returns it.
	proxier := metaproxier.NewMetaProxier(node.proxiers[v1.IPv4Protocol], node.proxiers[v1.IPv6Protocol])
	history := newHistory(proxier, &c.Node)
	states := make([]IPVSState, 0, len(c.Steps))
	for index := range c.Steps {
		node.flows.set(c.Steps[index].Flows)
		if err := history.take(&c.Steps[index]); err != nil {
			return nil, fmt.Errorf("step %d: %w", index, err)
		}
		// The proxiers sync in these calls; the first one only notes that the Services are there.
		if index == 0 {
			proxier.OnServiceSynced()
		}
		proxier.OnEndpointSlicesSynced()
		states = append(states, node.state())
	}
	return states, nil
}

func newIPVSNode(c *Case) (*ipvsNode, error) {
	ctx := context.Background()
	settings := settingsOf(ctx, c)
	interfaces, err := network(c.Interfaces)
	if err != nil {
		return nil, err
	}
	node := &ipvsNode{
		virtualServers: ipvstest.NewFake(),
		sets:           ipsettest.NewFake("v7.19"),
		links:          map[v1.IPFamily]*netlinktest.FakeNetlinkHandle{},
		health:         map[v1.IPFamily]*healthServer{},
		flows:          &fakeConntrack{},
		proxiers:       map[v1.IPFamily]*ipvs.Proxier{},
	}
	for _, family := range families {
		iptables := iptablestest.NewFake()
		if family == v1.IPv6Protocol {
			iptables = iptablestest.NewIPv6Fake()
		}
		proxier, err := ipvs.NewProxier(ctx, settings.config, family, iptables, node.virtualServers, node.sets, sysctls{},
			settings.localDetectors[family], settings.nodeName, settings.nodeIPs[family], nil, nil, false)
		if err != nil {
			return nil, err
		}
		link := netlinktest.NewFakeNetlinkHandle(family == v1.IPv6Protocol)
		for name, addresses := range c.Interfaces {
			if err := link.SetLocalAddresses(name, withoutPrefixes(addresses)...); err != nil {
				return nil, err
			}
		}
		health := &healthServer{}
		setField[ipvs.NetLinkHandle](proxier, "netlinkHandle", link)
		setField[proxyutil.NetworkInterfacer](proxier, "networkInterfacer", interfaces)
		setField[conntrack.Interface](proxier, "conntrack", node.flows)
		setField[healthcheck.ServiceHealthServer](proxier, "serviceHealthServer", health)
		node.links[family], node.health[family], node.proxiers[family] = link, health, proxier
	}
	return node, nil
}

func withoutPrefixes(addresses []string) []string {
	ips := make([]string, 0, len(addresses))
	for _, address := range addresses {
		ip, _, _ := strings.Cut(address, "/")
		ips = append(ips, ip)
	}
	return ips
}

func (n *ipvsNode) state() IPVSState {
	state := IPVSState{
		VirtualServers: map[string]VirtualServer{},
		Sets:           map[string][]string{},
		Addresses:      []string{},
		HealthChecks:   map[string]HealthCheck{},
		DeletedFlows:   n.flows.deleted,
	}
	for key, server := range n.virtualServers.Services {
		realServers := map[string]int{}
		for _, realServer := range n.virtualServers.Destinations[key] {
			realServers[realServer.String()] = realServer.Weight
		}
		at := fmt.Sprintf("%s %s", server.Protocol, net.JoinHostPort(key.IP, fmt.Sprint(key.Port)))
		state.VirtualServers[at] = VirtualServer{server.Scheduler, uint32(server.Flags), server.Timeout, realServers}
	}
	for name, entries := range n.sets.Entries {
		state.Sets[name] = entries.List()
	}
	for _, family := range families {
		bound, _ := n.links[family].ListBindAddress("kube-ipvs0")
		state.Addresses = append(state.Addresses, bound...)
		for name, check := range n.health[family].checks {
			state.HealthChecks[fmt.Sprintf("%s %s", family, name)] = check
		}
	}
	sort.Strings(state.Addresses)
	return state
}
