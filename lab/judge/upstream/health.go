package main

import (
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
)

// HealthCheck is what the listener of a healthCheckNodePort answers with.
type HealthCheck struct {
	Port  uint16 `json:"port"`
	Count int    `json:"count"`
}

// healthServer is the health check server of one family, without its listeners.
type healthServer struct {
	checks map[types.NamespacedName]HealthCheck
}

var _ healthcheck.ServiceHealthServer = &healthServer{}

func (h *healthServer) SyncServices(services map[types.NamespacedName]uint16) error {
	checks := map[types.NamespacedName]HealthCheck{}
	for name, port := range services {
		checks[name] = HealthCheck{Port: port, Count: h.checks[name].Count}
	}
	h.checks = checks
	return nil
}

func (h *healthServer) SyncEndpoints(counts map[types.NamespacedName]int) error {
	for name, check := range h.checks {
		h.checks[name] = HealthCheck{Port: check.Port, Count: counts[name]}
	}
	return nil
}
