package functions

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

type exponentialBackoff struct{}

func (exponentialBackoff) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "exponential_backoff"
}

func (exponentialBackoff) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Delays that grow by a factor.",
		MarkdownDescription: "Returns the delays `initial`, `initial * factor`, `initial * factor²` and so on, none longer than " +
			"`maximum`, for the argument `delays` of a retry chain. Each product is computed exactly and then rounded down to whole " +
			"milliseconds. There is no jitter: the same arguments always give the same delays, written with the largest units first " +
			"(`\"1m30s\"`, not `\"90s\"`).",
		Parameters: []function.Parameter{
			initialParameter,
			function.NumberParameter{
				Name: "factor",
				MarkdownDescription: "Number by which each delay is multiplied to give the next: 1 or more, such as `2` or `1.5`. " +
					"With `1` all delays are the same.",
			},
			maximumParameter,
			retriesParameter,
		},
		Return: function.ListReturn{ElementType: types.StringType},
	}
}

func (exponentialBackoff) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var initialText, maximumText string
	var factorNumber, retriesNumber *big.Float
	resp.Error = req.Arguments.Get(ctx, &initialText, &factorNumber, &maximumText, &retriesNumber)
	if resp.Error != nil {
		return
	}
	var a arguments
	initial := a.duration(0, initialText)
	factor := a.factor(1, factorNumber)
	maximum := a.maximum(2, maximumText, initial)
	retries := a.retries(3, retriesNumber)
	if a.err != nil {
		resp.Error = a.err
		return
	}
	resp.Error = resp.Result.Set(ctx, canonical(retry.ExponentialBackoff(initial, factor, maximum, retries)))
}
