// Writes objects in both encodings of k8s.io/apimachinery: by name, the JSON, and the protobuf in base64. objects.json has
// the output with k8s.io/api v0.37.2: go mod init objects && go get k8s.io/api@v0.37.2 && go run . > objects.json
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"os"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func ptr[T any](v T) *T { return &v }
func check(err error) {
	if err != nil {
		panic(err)
	}
}

type pair struct {
	JSON     json.RawMessage `json:"json"`
	Protobuf string          `json:"protobuf"`
}

func main() {
	scheme := runtime.NewScheme()
	check(core.AddToScheme(scheme))
	check(discovery.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, core.SchemeGroupVersion)
	proto := protobuf.NewSerializer(scheme, scheme)
	rawProto := protobuf.NewRawSerializer(scheme, scheme)
	out := map[string]pair{}
	encode := func(o runtime.Object) ([]byte, []byte) {
		j, err := json.Marshal(o)
		check(err)
		var b bytes.Buffer
		check(proto.Encode(o, &b))
		return j, b.Bytes()
	}
	add := func(name string, o runtime.Object) {
		j, b := encode(o)
		out[name] = pair{j, base64.StdEncoding.EncodeToString(b)}
	}
	watch := func(name, kind string, o runtime.Object) {
		j, b := encode(o)
		var w bytes.Buffer
		check(rawProto.Encode(&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: b}}, &w))
		frame := binary.BigEndian.AppendUint32(nil, uint32(w.Len()))
		frame = append(frame, w.Bytes()...)
		line, err := json.Marshal(map[string]any{"type": kind, "object": json.RawMessage(j)})
		check(err)
		out[name] = pair{line, base64.StdEncoding.EncodeToString(frame)}
	}
	when := metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	early := metav1.Time{Time: time.Date(1969, 7, 20, 20, 17, 40, 0, time.UTC)}
	meta := metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "0b7a8a5e", ResourceVersion: "123456", Generation: 1 << 40, CreationTimestamp: when, DeletionTimestamp: &early, DeletionGracePeriodSeconds: ptr(int64(-1)),
		Labels:          map[string]string{"app": "web", "kubernetes.io/service-name": "web", "topology.kubernetes.io/zone": "é"},
		Annotations:     map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z", "kube-ipvs-proxy/scheduler": "sh", "note": "x"},
		Finalizers:      []string{"f"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Service", Name: "web", Controller: ptr(true)}},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &when, FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}}}}
	service := core.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: meta,
		Spec: core.ServiceSpec{Type: "LoadBalancer", ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1", "fd00::1"}, IPFamilies: []core.IPFamily{"IPv4", "IPv6"}, IPFamilyPolicy: ptr(core.IPFamilyPolicyPreferDualStack),
			ExternalIPs: []string{"192.0.2.1"}, LoadBalancerSourceRanges: []string{"198.51.100.0/24"}, SessionAffinity: "ClientIP", SessionAffinityConfig: &core.SessionAffinityConfig{ClientIP: &core.ClientIPConfig{TimeoutSeconds: ptr(int32(60))}},
			InternalTrafficPolicy: ptr(core.ServiceInternalTrafficPolicyLocal), ExternalTrafficPolicy: "Local", HealthCheckNodePort: 31000, PublishNotReadyAddresses: true, Selector: map[string]string{"app": "web"}, TrafficDistribution: ptr("PreferClose"),
			AllocateLoadBalancerNodePorts: ptr(false), LoadBalancerClass: ptr("class"),
			Ports: []core.ServicePort{{Name: "http", Protocol: "TCP", Port: 80, TargetPort: intstr.FromString("web"), NodePort: 30080, AppProtocol: ptr("h2c")}, {Name: "dns", Protocol: "UDP", Port: 53, TargetPort: intstr.FromInt32(5353)}}},
		Status: core.ServiceStatus{LoadBalancer: core.LoadBalancerStatus{Ingress: []core.LoadBalancerIngress{{IP: "203.0.113.1", IPMode: ptr(core.LoadBalancerIPModeProxy), Ports: []core.PortStatus{{Port: 80, Protocol: "TCP"}}}, {Hostname: "lb"}}},
			Conditions: []metav1.Condition{{Type: "Ready", Status: "True", LastTransitionTime: when}}}}
	slice := discovery.EndpointSlice{TypeMeta: metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}, ObjectMeta: meta, AddressType: "IPv4",
		Ports: []discovery.EndpointPort{{Name: ptr("http"), Protocol: ptr(core.ProtocolTCP), Port: ptr(int32(8080))}, {}},
		Endpoints: []discovery.Endpoint{{Addresses: []string{"10.64.0.1"}, Conditions: discovery.EndpointConditions{Ready: ptr(true), Serving: ptr(true), Terminating: ptr(false)}, NodeName: ptr("node-1"), Zone: ptr("zone-a"), Hostname: ptr("web-0"),
			TargetRef: &core.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u"}, Hints: &discovery.EndpointHints{ForZones: []discovery.ForZone{{Name: "zone-a"}, {Name: "zone-b"}}, ForNodes: []discovery.ForNode{{Name: "node-1"}}}},
			{Addresses: []string{"10.64.0.2"}, Conditions: discovery.EndpointConditions{Ready: ptr(false), Terminating: ptr(true)}}}}
	node := core.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "7", Labels: map[string]string{"topology.kubernetes.io/zone": "zone-a"}},
		Spec: core.NodeSpec{PodCIDR: "10.64.0.0/24", PodCIDRs: []string{"10.64.0.0/24", "fd00::/64"}, ProviderID: "aws:///i-1", Taints: []core.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: "NoSchedule", TimeAdded: &when}}},
		Status: core.NodeStatus{Capacity: core.ResourceList{"cpu": resource.MustParse("4")}, Addresses: []core.NodeAddress{{Type: "InternalIP", Address: "192.0.2.1"}, {Type: "Hostname", Address: "node-1"}},
			Conditions: []core.NodeCondition{{Type: "Ready", Status: "True", LastHeartbeatTime: when}}, Images: []core.ContainerImage{{Names: []string{"a:1"}, SizeBytes: 1 << 33}}, NodeInfo: core.NodeSystemInfo{KernelVersion: "6.12"}}}
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: "too old resource version: 1 (2)", Reason: "Expired", Code: 410, Details: &metav1.StatusDetails{RetryAfterSeconds: 3, Kind: "services", Causes: []metav1.StatusCause{{Type: "x"}}}}
	add("service", &service)
	add("status", &status)
	item := service
	item.TypeMeta = metav1.TypeMeta{}
	plain := core.Service{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}
	add("services", &core.ServiceList{TypeMeta: metav1.TypeMeta{Kind: "ServiceList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "99", Continue: "next", RemainingItemCount: ptr(int64(1 << 33))}, Items: []core.Service{item, plain}})
	sliceItem := slice
	sliceItem.TypeMeta = metav1.TypeMeta{}
	add("slices", &discovery.EndpointSliceList{TypeMeta: metav1.TypeMeta{Kind: "EndpointSliceList", APIVersion: "discovery.k8s.io/v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "99"}, Items: []discovery.EndpointSlice{sliceItem}})
	nodeItem := node
	nodeItem.TypeMeta = metav1.TypeMeta{}
	add("nodes", &core.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, ListMeta: metav1.ListMeta{ResourceVersion: "99"}, Items: []core.Node{nodeItem}})
	watch("service event", "MODIFIED", &service)
	watch("slice event", "ADDED", &slice)
	watch("node event", "DELETED", &node)
	watch("bookmark", "BOOKMARK", &core.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100", Annotations: map[string]string{"k8s.io/initial-events-end": "true"}}})
	watch("error", "ERROR", &status)
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	check(e.Encode(out))
}
