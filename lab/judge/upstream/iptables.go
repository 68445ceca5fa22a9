package main

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy/conntrack"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	"k8s.io/kubernetes/pkg/proxy/iptables"
	"k8s.io/kubernetes/pkg/proxy/metaproxier"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	"k8s.io/kubernetes/pkg/proxy/util/nfacct"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
	iptablestest "k8s.io/kubernetes/pkg/util/iptables/testing"
)

func playIPTables(c *Case) (any, error) {
	ctx := context.Background()
	settings := settingsOf(ctx, c)
	interfaces, err := network(c.Interfaces)
	if err != nil {
		return nil, err
	}
	rules := map[v1.IPFamily]quoting{
		v1.IPv4Protocol: {iptablestest.NewFake()},
		v1.IPv6Protocol: {iptablestest.NewIPv6Fake()},
	}
	proxiers := map[v1.IPFamily]*iptables.Proxier{}
	for _, family := range families {
		proxier, err := iptables.NewProxier(ctx, settings.config, family, rules[family], strictSysctls{},
			settings.localDetectors[family], settings.nodeName, settings.nodeIPs[family], nil, nil, false)
		if err != nil {
			return nil, err
		}
		setField[proxyutil.NetworkInterfacer](proxier, "networkInterfacer", interfaces)
		setField[conntrack.Interface](proxier, "conntrack", &fakeConntrack{})
		setField[healthcheck.ServiceHealthServer](proxier, "serviceHealthServer", &healthServer{})
		// Counters of packets, which this machine would get.
		setField[nfacct.Interface](proxier, "nfacct", nil)
		proxiers[family] = proxier
	}
	proxier := metaproxier.NewMetaProxier(proxiers[v1.IPv4Protocol], proxiers[v1.IPv6Protocol])
	return playRules(c, proxier, func(family v1.IPFamily) (string, error) {
		text := bytes.Buffer{}
		// As an addition of the fake, no table means all of them.
		err := rules[family].SaveInto(utiliptables.Table(""), &text)
		return text.String(), err
	})
}

// quoting puts arguments with spaces in quotes, as iptables-save does and the fake does not.
type quoting struct {
	*iptablestest.FakeIPTables
}

func (q quoting) EnsureRule(position utiliptables.RulePosition, table utiliptables.Table, chain utiliptables.Chain, args ...string) (bool, error) {
	quoted := make([]string, len(args))
	for index, arg := range args {
		quoted[index] = arg
		if strings.Contains(arg, " ") {
			quoted[index] = strconv.Quote(arg)
		}
	}
	return q.FakeIPTables.EnsureRule(position, table, chain, quoted...)
}

// strictSysctls accepts every value, and says that all are 0: connection tracking is strict then.
type strictSysctls struct{}

func (strictSysctls) GetSysctl(string) (int, error) { return 0, nil }
func (strictSysctls) SetSysctl(string, int) error   { return nil }
