package delaydestination

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
)

func (r *destinationResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identity.Schema()
}

func (r *destinationResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Attaches a queue to a delay network as a destination: a binding of the network's delivery exchange. " +
			"Messages whose routing key names a destination that is not attached when their delay is over go to the network's queue " +
			"for unrouted messages.\n\nEvery change makes a new binding. Set `create_before_destroy` in the `lifecycle` block, so " +
			"that no message comes between the old and the new one.",
		Attributes: map[string]schema.Attribute{
			"network": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Name of the delay network. It must exist when this is applied: refer to the resource, if it is in " +
					"the same configuration.",
				Validators: notEmpty,
			},
			"queue": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the queue. It must exist when this is applied.",
				Validators:          notEmpty,
			},
			"name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Name that senders write into the routing key. Dots are allowed, the words `*` and `#` are not. " +
					"At most 255 bytes less 2 per level, 199 with 28 levels. When several destinations have the same name each gets a " +
					"copy. Default: the name of the queue.",
				Validators: notEmpty,
			},
			"levels": schema.Int64Attribute{
				Computed: true,
				MarkdownDescription: "Number of levels of the network, read from the broker. Known after apply if the network is created " +
					"in the same run.",
			},
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Virtual host of the network and the queue." + attribute.DefaultVHost,
				Validators:          notEmpty,
			},
			"id": schema.StringAttribute{
				Computed: true,
				MarkdownDescription: "`network/name/queue@vhost`, as an import takes it. `%`, `@` and, in the first three parts, `/` are " +
					"percent-encoded.",
			},
			"routing_key": schema.StringAttribute{
				Computed:            true,
				MarkdownDescription: "Routing key of the binding: one `*` per level and the name.",
			},
		},
	}
}
