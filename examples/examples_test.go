package examples_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// applied are the examples that are applied, planned again and destroyed.
var applied = []string{"full", "for_each", "resources/rabbitmq_retry_chain"}

// TestAccExamples validates and plans every example.
func TestAccExamples(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		all := folders(t)
		for _, folder := range applied {
			if !slices.Contains(all, folder) {
				t.Errorf("there is no example %s, only %q", folder, all)
			}
		}
		for _, folder := range all {
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				tryExample(t, b, folder)
			})
		}
	})
}

func tryExample(t *testing.T, b *rabbit.Broker, folder string) {
	t.Helper()
	w := workspace(t, b, acctest.VHost(t, b), configuration(t, folder))
	acctest.Run(t, w, "validate")
	if output := acctest.Run(t, w, "plan", "-input=false"); strings.Contains(output, "Warning: Argument") || strings.Contains(output, "Warning: Chain") {
		t.Errorf("the plan warns:\n%s", output)
	}
	if !slices.Contains(applied, folder) {
		return
	}
	acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
	acctest.Run(t, w, "plan", "-detailed-exitcode", "-input=false")
	acctest.Run(t, w, "destroy", "-auto-approve", "-input=false")
}
