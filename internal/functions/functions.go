// Package functions is the functions of the provider. They are pure: the same
// arguments give the same result, and no broker is asked.
package functions

import "github.com/hashicorp/terraform-plugin-framework/function"

// All returns the constructors of the functions.
func All() []func() function.Function {
	return []func() function.Function{
		func() function.Function { return exponentialBackoff{} },
		func() function.Function { return linearBackoff{} },
		func() function.Function { return retrySchedule{} },
		func() function.Function { return delayKey{} },
		func() function.Function { return prometheusAlerts{} },
		func() function.Function { return topologyDiagram{} },
	}
}
