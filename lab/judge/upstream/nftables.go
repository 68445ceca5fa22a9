package main

import (
	"context"
	"net"
	"time"
	"unsafe"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/conntrack"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/metaproxier"
	"k8s.io/kubernetes/pkg/proxy/nftables"
	"k8s.io/kubernetes/pkg/proxy/runner"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	"sigs.k8s.io/knftables"
)

// nftables.NewProxier needs the nft program of this machine, so the proxier is made of its parts.

//go:linkname newNFTService k8s.io/kubernetes/pkg/proxy/nftables.newServiceInfo
func newNFTService(port *v1.ServicePort, service *v1.Service, info *proxy.BaseServicePortInfo) proxy.ServicePort

//go:linkname newNFTEndpoint k8s.io/kubernetes/pkg/proxy/nftables.newEndpointInfo
func newNFTEndpoint(info *proxy.BaseEndpointInfo, name *proxy.ServicePortName) proxy.Endpoint

// newNFTElements returns a pointer to a type that is not exported.
//
//go:linkname newNFTElements k8s.io/kubernetes/pkg/proxy/nftables.newNFTElementStorage
func newNFTElements(kind, name string) unsafe.Pointer

// nftElements has the fields of the proxier that remember the elements of a set or map.
var nftElements = map[string]struct{ kind, name string }{
	"clusterIPs":               {"set", "cluster-ips"},
	"serviceIPs":               {"map", "service-ips"},
	"firewallIPs":              {"map", "firewall-ips"},
	"noEndpointServices":       {"map", "no-endpoint-services"},
	"noEndpointNodePorts":      {"map", "no-endpoint-nodeports"},
	"serviceNodePorts":         {"map", "service-nodeports"},
	"hairpinConnections":       {"set", "hairpin-connections"},
	"localhostNodePortRejects": {"map", "localhost-nodeport-reject-ports"},
}

var nftFamilies = map[v1.IPFamily]knftables.Family{
	v1.IPv4Protocol: knftables.IPv4Family,
	v1.IPv6Protocol: knftables.IPv6Family,
}

func playNFTables(c *Case) (any, error) {
	settings := settingsOf(context.Background(), c)
	interfaces, err := network(c.Interfaces)
	if err != nil {
		return nil, err
	}
	tables := map[v1.IPFamily]*knftables.Fake{}
	proxiers := map[v1.IPFamily]*nftables.Proxier{}
	for _, family := range families {
		tables[family] = knftables.NewFake(nftFamilies[family], "kube-proxy")
		proxiers[family] = newNFTProxier(family, tables[family], settings)
		setField[proxyutil.NetworkInterfacer](proxiers[family], "networkInterfacer", interfaces)
	}
	proxier := metaproxier.NewMetaProxier(proxiers[v1.IPv4Protocol], proxiers[v1.IPv6Protocol])
	return playRules(c, proxier, func(family v1.IPFamily) (string, error) { return tables[family].Dump(), nil })
}

func newNFTProxier(family v1.IPFamily, table knftables.Interface, s settings) *nftables.Proxier {
	addresses := s.config.NodePortAddresses
	proxier := &nftables.Proxier{}
	setField(proxier, "ipFamily", family)
	setField(proxier, "svcPortMap", make(proxy.ServicePortMap))
	setField(proxier, "serviceChanges", proxy.NewServiceChangeTracker(family, newNFTService, nil))
	setField(proxier, "endpointsMap", make(proxy.EndpointsMap))
	setField(proxier, "endpointsChanges", proxy.NewEndpointsChangeTracker(family, s.nodeName, newNFTEndpoint, nil))
	setField(proxier, "needFullSync", true)
	setField(proxier, "nftables", table)
	setField(proxier, "masqueradeAll", s.config.Linux.MasqueradeAll)
	setField(proxier, "masqueradeMark", "0x004000")
	setField(proxier, "masqueradeRule", "mark set mark or 0x004000")
	setField[conntrack.Interface](proxier, "conntrack", &fakeConntrack{})
	setField(proxier, "localDetector", s.localDetectors[family])
	setField(proxier, "nodeName", s.nodeName)
	setField[net.IP](proxier, "nodeIP", s.nodeIPs[family])
	setField[healthcheck.ServiceHealthServer](proxier, "serviceHealthServer", &healthServer{})
	setField(proxier, "nodePortAddresses", proxyutil.NewNodePortAddresses(family, addresses))
	setField(proxier, "staleChains", map[string]time.Time{})
	setField(proxier, "logRateLimiter", rate.NewLimiter(rate.Inf, 1))
	for field, of := range nftElements {
		setField(proxier, field, newNFTElements(of.kind, of.name))
	}
	// The steps call for each sync themselves.
	never := runner.NewBoundedFrequencyRunner("never", func() error { return nil }, 0, time.Hour, time.Hour)
	setField(proxier, "syncRunner", never)
	return proxier
}
