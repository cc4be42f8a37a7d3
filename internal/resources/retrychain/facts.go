package retrychain

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// factsKey is where the private state keeps the facts.
const factsKey = "broker"

// facts are what a plan has to know of the broker. A refresh writes them into
// the private state, where every later plan finds the same.
type facts struct {
	// Version of the broker at the last refresh.
	Version string `json:"version"`
	// Features that the chain is made for.
	Features retry.Features `json:"features"`
}

func factsOf(info broker.Info) facts {
	return facts{Version: info.Version.String(), Features: retry.FeaturesOf(info.Version.AtLeast)}
}

type privateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type privateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// readFacts returns nil when there are none.
func readFacts(ctx context.Context, private privateReader, diags *diag.Diagnostics) *facts {
	raw, d := private.GetKey(ctx, factsKey)
	diags.Append(d...)
	if raw == nil {
		return nil
	}
	var f facts
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil // written by another version of the provider: ask the broker
	}
	return &f
}

func (f facts) write(ctx context.Context, private privateWriter, diags *diag.Diagnostics) {
	raw, err := json.Marshal(f)
	if err != nil {
		diags.AddError("Broker Facts Not Saved", err.Error())
		return
	}
	diags.Append(private.SetKey(ctx, factsKey, raw)...)
}
