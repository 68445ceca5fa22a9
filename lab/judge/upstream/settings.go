package main

import (
	"context"
	"fmt"
	"net"

	v1 "k8s.io/api/core/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	kubeproxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	proxyutiltest "k8s.io/kubernetes/pkg/proxy/util/testing"
	utilnode "k8s.io/kubernetes/pkg/util/node"
	"k8s.io/utils/ptr"
)

// families are the IP families in the order in which a dual-stack proxier makes its two.
var families = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}

// settings is what every mode needs to make its proxiers.
type settings struct {
	config         *kubeproxyconfig.KubeProxyConfiguration
	nodeName       string
	nodeIPs        map[v1.IPFamily]net.IP
	localDetectors map[v1.IPFamily]proxyutil.LocalTrafficDetector
}

// settingsOf does what cmd/kube-proxy/app does with a configuration and a Node.
func settingsOf(ctx context.Context, c *Case) settings {
	config := &kubeproxyconfig.KubeProxyConfiguration{
		Mode:            kubeproxyconfig.ProxyMode(c.Mode),
		DetectLocalMode: kubeproxyconfig.LocalMode(c.Config.DetectLocalMode),
		DetectLocal: kubeproxyconfig.DetectLocalConfiguration{
			ClusterCIDRs:        c.Config.ClusterCIDRs,
			BridgeInterface:     "cni0",
			InterfaceNamePrefix: "cni",
		},
		Linux:             kubeproxyconfig.KubeProxyLinuxConfiguration{MasqueradeAll: c.Config.MasqueradeAll},
		IPVS:              kubeproxyconfig.KubeProxyIPVSConfiguration{Scheduler: c.Config.Scheduler},
		IPTables:          kubeproxyconfig.KubeProxyIPTablesConfiguration{MasqueradeBit: ptr.To[int32](14), LocalhostNodePorts: ptr.To(true)},
		NFTables:          kubeproxyconfig.KubeProxyNFTablesConfiguration{MasqueradeBit: ptr.To[int32](14)},
		NodePortAddresses: c.Config.NodePortAddresses,
	}
	// The defaults of cmd/kube-proxy/app/server_linux.go.
	if config.DetectLocalMode == "" {
		config.DetectLocalMode = kubeproxyconfig.LocalModeClusterCIDR
	}
	if c.Mode == "nftables" && len(config.NodePortAddresses) == 0 {
		config.NodePortAddresses = []string{kubeproxyconfig.NodePortAddressesPrimary}
	}
	rawNodeIPs, _ := utilnode.GetNodeHostIPs(&c.Node)
	primary, nodeIPs := detectNodeIPs(ctx, rawNodeIPs, c.Config.BindAddress)
	config.NodePortAddresses = expandNodePortAddressKeywords(config.NodePortAddresses, nodeIPs)
	detectors := getLocalDetectors(klog.FromContext(ctx), primary, config, c.Node.Spec.PodCIDRs)
	return settings{config, c.Node.Name, nodeIPs, detectors}
}

// setFeatureGates sets the gates of a case and returns a function that sets them back.
func setFeatureGates(gates map[string]bool) (func(), error) {
	gate := utilfeature.DefaultMutableFeatureGate
	reset := func() {
		for name := range gates {
			utilruntime.Must(gate.ResetFeatureValueToDefault(featuregate.Feature(name)))
		}
	}
	return reset, gate.SetFromMap(gates)
}

// network is the node's interfaces.
func network(interfaces map[string][]string) (*proxyutiltest.FakeNetwork, error) {
	fake := proxyutiltest.NewFakeNetwork()
	for name, addresses := range interfaces {
		parsed := make([]net.Addr, 0, len(addresses))
		for _, address := range addresses {
			ip, cidr, err := net.ParseCIDR(address)
			if err != nil {
				return nil, fmt.Errorf("interface %s: %w", name, err)
			}
			parsed = append(parsed, &net.IPNet{IP: ip, Mask: cidr.Mask})
		}
		fake.AddInterfaceAddr(&net.Interface{Name: name}, parsed)
	}
	return fake, nil
}
