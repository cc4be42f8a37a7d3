package functions

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

type linearBackoff struct{}

func (linearBackoff) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "linear_backoff"
}

func (linearBackoff) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Delays that grow by a step.",
		MarkdownDescription: "Returns the delays `initial`, `initial + step`, `initial + 2 * step` and so on, none longer than " +
			"`maximum`, for the argument `delays` of a retry chain. There is no jitter: the same arguments always give the same delays, " +
			"written with the largest units first (`\"1m30s\"`, not `\"90s\"`).",
		Parameters: []function.Parameter{
			initialParameter,
			function.StringParameter{
				Name: "step",
				MarkdownDescription: "Duration that is added to each delay to give the next, such as `\"5s\"`: 0 to ten years. " +
					"With `\"0s\"` all delays are the same.",
			},
			maximumParameter,
			retriesParameter,
		},
		Return: function.ListReturn{ElementType: types.StringType},
	}
}

func (linearBackoff) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var initialText, stepText, maximumText string
	var retriesNumber *big.Float
	resp.Error = req.Arguments.Get(ctx, &initialText, &stepText, &maximumText, &retriesNumber)
	if resp.Error != nil {
		return
	}
	var a arguments
	initial := a.duration(0, initialText)
	step := a.duration(1, stepText)
	maximum := a.maximum(2, maximumText, initial)
	retries := a.retries(3, retriesNumber)
	if a.err != nil {
		resp.Error = a.err
		return
	}
	resp.Error = resp.Result.Set(ctx, canonical(retry.LinearBackoff(initial, step, maximum, retries)))
}
