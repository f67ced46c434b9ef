// Reads ServiceMonitors as the Prometheus operator does, with its own types, and refuses what these do not have: a YAML
// document a file. No schema of theirs comes with Kubernetes, so its validators know none.
package main

import (
	"fmt"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

func check(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var monitor monitoring.ServiceMonitor
	if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
		return err
	}
	if monitor.Kind != monitoring.ServiceMonitorsKind || monitor.APIVersion != monitoring.SchemeGroupVersion.String() {
		return fmt.Errorf("a %s of %s, not a ServiceMonitor", monitor.Kind, monitor.APIVersion)
	}
	if len(monitor.Spec.Endpoints) == 0 {
		return fmt.Errorf("no endpoint")
	}
	return nil
}

func main() {
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(1)
		}
	}
}
