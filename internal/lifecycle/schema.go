package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// VHostAttribute is the attribute vhost; its default is the provider's. what names what
// must be in the virtual host, such as "Virtual host of the tiers."
func VHostAttribute(what string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, MarkdownDescription: what + attribute.DefaultVHost,
		Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
	}
}

// DeletionPolicyAttribute is the attribute deletion_policy. what says what each value
// does.
func DeletionPolicyAttribute(what string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, Computed: true, Validators: []validator.String{stringvalidator.OneOf(IfEmpty, DeleteAll, Retain)},
		MarkdownDescription: what + " The value that was applied last counts: to change it, apply first and destroy then. Default: " +
			"`if_empty`.",
	}
}

// TimeoutsAttribute is the attribute timeouts. update and remove say what an update and a
// destroy may wait for, as sentences or the rest of one.
func (t Timeouts) TimeoutsAttribute(ctx context.Context, update, remove string) schema.Attribute {
	minutes := func(d time.Duration) string { return fmt.Sprintf(" Default: `%gm`.", d.Minutes()) }
	limits := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Longest time for a create, such as `30s`." + minutes(t.Create),
		ReadDescription:   "Longest time for a refresh." + minutes(t.Read),
		UpdateDescription: "Longest time for an update" + update + minutes(t.Update),
		DeleteDescription: "Longest time for a destroy" + remove + minutes(t.Delete),
	})
	if nested, ok := limits.(schema.SingleNestedAttribute); ok {
		nested.MarkdownDescription = "Time limits of the operations. Default: those below."
		return nested
	}
	return limits
}

// TextOutput is a computed text.
func TextOutput(what string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: what}
}

// TopologyAttribute is the attribute topology. objects says which objects it lists. It is no
// nested attribute: the framework and Terraform look at every part of those in every plan.
func TopologyAttribute(objects string) schema.Attribute {
	return schema.ObjectAttribute{
		Computed: true, AttributeTypes: values.LinesTypes,
		MarkdownDescription: objects + ", one line each: `exchanges` and `queues` with type and arguments by name, `bindings` with " +
			"arguments, if any, by `source -> destination (routing key)`, and `policies` with pattern, priority and definition by name. " +
			"State reflects the broker, the plan the desired topology, so a plan shows exactly what drifted. After a refresh, `policies` " +
			"also lists other policies that endanger messages. `ignore_changes` has no effect.",
	}
}
