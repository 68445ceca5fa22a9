package main

import (
	"context"
	"net"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/cmd/kube-proxy/app" // linked to below
	kubeproxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
)

// setField replaces an unexported field of a proxier: what it would do to this machine is done by a fake.
func setField[T any](proxier any, name string, value T) {
	field := reflect.ValueOf(proxier).Elem().FieldByName(name)
	*(*T)(unsafe.Pointer(field.UnsafeAddr())) = value
}

// What kube-proxy makes of its configuration before it makes its proxiers.

//go:linkname detectNodeIPs k8s.io/kubernetes/cmd/kube-proxy/app.detectNodeIPs
func detectNodeIPs(ctx context.Context, rawNodeIPs []net.IP, bindAddress string) (v1.IPFamily, map[v1.IPFamily]net.IP)

//go:linkname expandNodePortAddressKeywords k8s.io/kubernetes/cmd/kube-proxy/app.expandNodePortAddressKeywords
func expandNodePortAddressKeywords(nodePortAddresses []string, nodeIPs map[v1.IPFamily]net.IP) []string

//go:linkname getLocalDetectors k8s.io/kubernetes/cmd/kube-proxy/app.getLocalDetectors
func getLocalDetectors(logger klog.Logger, primaryIPFamily v1.IPFamily, config *kubeproxyconfig.KubeProxyConfiguration, nodePodCIDRs []string) map[v1.IPFamily]proxyutil.LocalTrafficDetector
