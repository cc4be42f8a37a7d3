package diagnostics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

func TestAddErrorSaysWhenTimeIsOver(t *testing.T) {
	for _, test := range []struct {
		err         error
		title, text string
		over        bool
	}{
		{fmt.Errorf("stopped while counting: %w", &run.TimeoutError{Limit: 5 * time.Minute}), "Not Deleted", "Stopped while counting: the time limit of 5m0s is over.", true},
		{fmt.Errorf("stopped while counting: %w", context.DeadlineExceeded), "Not Deleted", "Stopped while counting: context deadline exceeded.", true},
		{context.Canceled, "Not Deleted", "Context canceled.", false},
		{&broker.ConnectionError{Problem: "no answer within 30s", Err: errors.New("no answer in time")}, "Broker Not Reached", "no answer within 30s", false},
	} {
		var diags diag.Diagnostics
		diagnostics.AddError(&diags, "Not Deleted", test.err)
		got := diags[0]
		if got.Summary() != test.title || !strings.Contains(got.Detail(), test.text) || strings.Contains(got.Detail(), "attribute timeouts") != test.over {
			t.Errorf("%v: %s: %s", test.err, got.Summary(), got.Detail())
		}
	}
}
