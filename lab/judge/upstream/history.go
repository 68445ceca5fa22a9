package main

import (
	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/pkg/proxy/apis"
)

// history sends the changes of steps to a proxier as kube-proxy's informers do: an object that their selectors leave out does
// not exist for it.
type history struct {
	proxier  proxy.Provider
	services map[string]*v1.Service
	slices   map[string]*discovery.EndpointSlice
}

func newHistory(proxier proxy.Provider, node *v1.Node) *history {
	labels := map[string]string{}
	if zone, ok := node.Labels[v1.LabelTopologyZone]; ok {
		labels[v1.LabelTopologyZone] = zone
	}
	proxier.OnTopologyChange(labels)
	return &history{proxier, map[string]*v1.Service{}, map[string]*discovery.EndpointSlice{}}
}

// take sends the changes of a step. The caller decides when the proxier syncs.
func (h *history) take(step *Step) error {
	for _, raw := range step.Apply {
		service, slice, err := decodeObject(raw)
		if err != nil {
			return err
		}
		if service != nil {
			h.setService(service.Namespace+"/"+service.Name, service)
		} else {
			h.setSlice(slice.Namespace+"/"+slice.Name, slice)
		}
	}
	for _, object := range step.Remove {
		key := object.Namespace + "/" + object.Name
		if object.Kind == "Service" {
			h.setService(key, nil)
		} else {
			h.setSlice(key, nil)
		}
	}
	return nil
}

func (h *history) setService(key string, service *v1.Service) {
	if service != nil && !selectsService(service) {
		service = nil
	}
	before := h.services[key]
	switch {
	case service != nil && before == nil:
		h.proxier.OnServiceAdd(service)
	case service != nil:
		h.proxier.OnServiceUpdate(before, service)
	case before != nil:
		h.proxier.OnServiceDelete(before)
	}
	h.services[key] = service
}

func (h *history) setSlice(key string, slice *discovery.EndpointSlice) {
	if slice != nil && !selectsSlice(slice) {
		slice = nil
	}
	before := h.slices[key]
	switch {
	case slice != nil && before == nil:
		h.proxier.OnEndpointSliceAdd(slice)
	case slice != nil:
		h.proxier.OnEndpointSliceUpdate(before, slice)
	case before != nil:
		h.proxier.OnEndpointSliceDelete(before)
	}
	h.slices[key] = slice
}

// selectsService is the selector of Services in cmd/kube-proxy/app/server.go.
func selectsService(service *v1.Service) bool {
	_, named := service.Labels[apis.LabelServiceProxyName]
	return !named && service.Spec.ClusterIP != v1.ClusterIPNone
}

// selectsSlice is the selector of EndpointSlices in cmd/kube-proxy/app/server.go.
func selectsSlice(slice *discovery.EndpointSlice) bool {
	_, headless := slice.Labels[v1.IsHeadlessService]
	return !headless
}
