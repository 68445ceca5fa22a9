package main

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
)

// Case is one line of the input: a configuration, a node, and the history of its cluster.
type Case struct {
	ID   int    `json:"id"`
	Mode string `json:"mode"`
	// Runs is how many times the history is played, because Go's map order decides some results.
	Runs   int    `json:"runs"`
	Config Config `json:"config"`
	// Node is our own node.
	Node v1.Node `json:"node"`
	// Interfaces has the node's addresses with their prefix lengths, by the name of the interface; loopback is one of them.
	Interfaces map[string][]string `json:"interfaces"`
	Steps      []Step              `json:"steps"`
}

// Config has the settings that cases vary, with kube-proxy's own names.
type Config struct {
	Scheduler         string          `json:"scheduler"`
	MasqueradeAll     bool            `json:"masqueradeAll"`
	DetectLocalMode   string          `json:"detectLocalMode"`
	ClusterCIDRs      []string        `json:"clusterCIDRs"`
	NodePortAddresses []string        `json:"nodePortAddresses"`
	BindAddress       string          `json:"bindAddress"`
	FeatureGates      map[string]bool `json:"featureGates"`
}

// Step is what happens before one sync. The first step has the objects that exist at start.
type Step struct {
	// Apply has Services and EndpointSlices that are new or changed.
	Apply  []json.RawMessage `json:"apply"`
	Remove []ObjectName      `json:"remove"`
	// Flows is the whole connection tracking table: UDP flows only.
	Flows []Flow `json:"flows"`
}

// ObjectName names a Service or an EndpointSlice.
type ObjectName struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Flow is a tracked UDP flow: its original direction, and the source of its replies.
type Flow struct {
	Source          string `json:"source"`
	SourcePort      uint16 `json:"sourcePort"`
	Destination     string `json:"destination"`
	DestinationPort uint16 `json:"destinationPort"`
	ReplySource     string `json:"replySource"`
	ReplySourcePort uint16 `json:"replySourcePort"`
}

// Answer is one line of the output.
type Answer struct {
	ID int `json:"id"`
	// Results has each different result of the runs: the states after each step, in the form of the mode.
	Results []json.RawMessage `json:"results,omitempty"`
	// Error is why the case could not be played.
	Error string `json:"error,omitempty"`
}

// decodeObject reads a Service or an EndpointSlice; the other value is nil.
func decodeObject(raw json.RawMessage) (*v1.Service, *discovery.EndpointSlice, error) {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, nil, err
	}
	switch head.Kind {
	case "Service":
		service := &v1.Service{}
		return service, nil, json.Unmarshal(raw, service)
	case "EndpointSlice":
		slice := &discovery.EndpointSlice{}
		return nil, slice, json.Unmarshal(raw, slice)
	}
	return nil, nil, fmt.Errorf("neither a Service nor an EndpointSlice: %q", head.Kind)
}
