package functions

import "github.com/hashicorp/terraform-plugin-framework/function"

// The parameters that both back-off functions have.
var (
	initialParameter = function.StringParameter{
		Name: "initial",
		MarkdownDescription: "Delay before the first retry, such as `\"500ms\"`, `\"5s\"` or `\"1m30s\"`: 0 to ten years (`\"87600h\"`) " +
			"in whole milliseconds.",
	}
	maximumParameter = function.StringParameter{
		Name:                "maximum",
		MarkdownDescription: "Longest delay, at least `initial` and at most ten years. Delays that would be longer are cut to it.",
	}
	retriesParameter = function.NumberParameter{
		Name:                "retries",
		MarkdownDescription: "Number of delays to return: a whole number from 0 to 50.",
	}
)
