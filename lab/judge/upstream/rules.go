package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy"
)

// RulesState has the rules of each family, as the fake of the mode prints them.
type RulesState struct {
	IPv4 string `json:"IPv4"`
	IPv6 string `json:"IPv6"`
}

// playRules plays a history and returns the rules after each step.
func playRules(c *Case, proxier proxy.Provider, print func(family v1.IPFamily) (string, error)) (any, error) {
	history := newHistory(proxier, &c.Node)
	states := make([]RulesState, 0, len(c.Steps))
	for index := range c.Steps {
		if err := history.take(&c.Steps[index]); err != nil {
			return nil, fmt.Errorf("step %d: %w", index, err)
		}
		// The proxiers sync in these calls; the first one only notes that the Services are there.
		if index == 0 {
			proxier.OnServiceSynced()
		}
		proxier.OnEndpointSlicesSynced()
		ip4, err := print(v1.IPv4Protocol)
		if err != nil {
			return nil, err
		}
		ip6, err := print(v1.IPv6Protocol)
		if err != nil {
			return nil, err
		}
		states = append(states, RulesState{ip4, ip6})
	}
	return states, nil
}
