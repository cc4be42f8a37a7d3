package functions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

type retrySchedule struct{}

// attempt is one row of the result.
type attempt struct {
	Attempt int64  `tfsdk:"attempt"`
	Wait    string `tfsdk:"wait"`
	Elapsed string `tfsdk:"elapsed"`
}

var attemptType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"attempt": types.Int64Type,
	"wait":    types.StringType,
	"elapsed": types.StringType,
}}

func (retrySchedule) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "retry_schedule"
}

func (retrySchedule) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "When each attempt of a retry chain happens.",
		MarkdownDescription: "Returns one object for each attempt that a message gets in a retry chain with these delays, one more than " +
			"there are delays:\n\n" +
			"- `attempt` (Number) 1 for the first delivery, 2 for the first retry and so on.\n" +
			"- `wait` (String) Delay right before this attempt, `\"0s\"` for the first.\n" +
			"- `elapsed` (String) Sum of the delays since the first attempt.\n\n" +
			"These are the earliest times. The time that the consumer takes, and the time that a message spends in a work queue that is " +
			"not empty, come on top.",
		Parameters: []function.Parameter{
			function.ListParameter{
				Name:        "delays",
				ElementType: types.StringType,
				MarkdownDescription: "Delays of the chain, in order, such as `[\"5s\", \"30s\", \"5m\"]`: at most 50, each 0 to ten " +
					"years in whole milliseconds, together at most 292 years.",
			},
		},
		Return: function.ListReturn{ElementType: attemptType},
	}
}

func (retrySchedule) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var list types.List
	resp.Error = req.Arguments.Get(ctx, &list)
	if resp.Error != nil {
		return
	}
	var a arguments
	delays, known := a.delays(0, list)
	if a.err != nil {
		resp.Error = a.err
		return
	}
	if !known {
		resp.Error = resp.Result.Set(ctx, types.ListUnknown(attemptType))
		return
	}
	attempts, err := retry.Schedule(delays)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, rows(attempts))
}

// rows are attempts as Terraform sees them.
func rows(attempts []retry.Attempt) []attempt {
	rows := make([]attempt, len(attempts))
	for i, a := range attempts {
		rows[i] = attempt{int64(a.Number), retry.FormatDuration(a.Wait), retry.FormatDuration(a.Elapsed)}
	}
	return rows
}
