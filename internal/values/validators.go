package values

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Duration checks that a string is a duration such as "90s" or "1m30s", at most
// ten years long.
func Duration() validator.String { return DurationAtLeast(0) }

// DurationAtLeast is [Duration] with a minimum.
func DurationAtLeast(minimum time.Duration) validator.String {
	return check{
		description: "a duration such as \"500ms\", \"90s\", \"1m30s\", \"2h\" or \"7d\"",
		title:       "Invalid Duration",
		problem: func(text string) error {
			d, err := retry.ParseDuration(text)
			if err == nil && d < minimum {
				err = fmt.Errorf("%q is too short: the minimum is %q", text, retry.FormatDuration(minimum))
			}
			return err
		},
	}
}

// Arguments checks that a string is a JSON object whose values RabbitMQ can
// keep as arguments.
func Arguments() validator.String {
	return check{
		description: "a JSON object of strings, numbers, booleans, lists and objects",
		title:       "Invalid Arguments",
		problem: func(text string) error {
			_, err := DecodeArguments(text)
			return err
		},
	}
}

type check struct {
	description string
	title       string
	problem     func(string) error
}

func (c check) Description(context.Context) string { return "value must be " + c.description }

func (c check) MarkdownDescription(context.Context) string { return "value must be " + c.description }

func (c check) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := c.problem(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, c.title, diagnostics.Locate(req.Path.String(), diagnostics.Sentence(err.Error())))
	}
}

// DecodeArguments reads arguments from a JSON object. Numbers without a
// fraction become integers, as RabbitMQ takes them.
func DecodeArguments(text string) (topology.Arguments, error) {
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object; write jsonencode({ \"key\" = value }) (%w)", err)
	}
	return topology.FromJSON(raw)
}

// EncodeArguments writes arguments as Terraform's jsonencode does.
func EncodeArguments(arguments topology.Arguments) (string, error) {
	text, err := json.Marshal(arguments)
	return string(text), err
}
