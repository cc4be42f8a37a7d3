package lifecycle

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// PrivateReader is the private state in a request.
type PrivateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

// PrivateWriter is the private state in a response.
type PrivateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// ReadPrivate reads a value from the private state. It returns nil when there
// is none, or one that another version of the provider wrote and this one
// cannot read.
func ReadPrivate[T any](ctx context.Context, private PrivateReader, key string, diags *diag.Diagnostics) *T {
	raw, d := private.GetKey(ctx, key)
	diags.Append(d...)
	if raw == nil {
		return nil
	}
	var value T
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil
	}
	return &value
}

// WritePrivate writes a value into the private state.
func WritePrivate[T any](ctx context.Context, private PrivateWriter, key string, value T, diags *diag.Diagnostics) {
	raw, err := json.Marshal(value)
	if err != nil {
		diags.AddError("Broker Facts Not Saved", err.Error())
		return
	}
	diags.Append(private.SetKey(ctx, key, raw)...)
}
