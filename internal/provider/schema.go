package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (p *rabbitmqProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Declares how RabbitMQ work queues retry: after a failure wait, try again, and park the message " +
			"where a person can look at it. The provider talks to the management API; nothing else has to run.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Address of the management API: `http(s)://host[:port][/prefix]`, or those of several nodes of one " +
					"cluster, separated by commas. A request that cannot reach one address goes to the next. " +
					"Addresses of different clusters are refused. Required here or as `RABBITMQ_ENDPOINT`.",
			},
			"username": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "User of the management API. Required here or as `RABBITMQ_USERNAME`, unless `token` is set.",
			},
			"password": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Password of the user. Required here or as `RABBITMQ_PASSWORD`, unless `token` is set.",
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				Validators: []validator.String{
					stringvalidator.LengthAtLeast(1),
					stringvalidator.ConflictsWith(path.MatchRoot("username"), path.MatchRoot("password")),
				},
				MarkdownDescription: "OAuth 2 access token instead of `username` and `password`, for the management API and AMQP. " +
					"The broker needs the plugin `rabbitmq_auth_backend_oauth2`. The token must be valid until the run ends. " +
					"Environment: `RABBITMQ_TOKEN`, unless the block has `username` or `password`. Default: none.",
			},
			"vhost": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Virtual host of every resource, data source, ephemeral resource and action that sets no `vhost`. " +
					"A change replaces the resources that use it. Environment: `RABBITMQ_VHOST`. Default: `/`.",
			},
			"amqp_endpoint": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Address for AMQP 0-9-1, `amqp(s)://host[:port]`, or several addresses of the same cluster, " +
					"separated by commas. Over AMQP the provider reads the exact number of messages before it deletes a queue. " +
					"An address of another cluster than that of `endpoint` is refused. Environment: `RABBITMQ_AMQP_ENDPOINT`. " +
					"Default: the host of `endpoint` that answered, then its other hosts, and the port of each node's AMQP listener.",
			},
			"insecure": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Do not check the certificate of the broker. Environment: `RABBITMQ_INSECURE` (`true` or `false`). " +
					"Default: `false`.",
			},
			"cacert_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Path of a PEM file with the certificate authorities to trust. Environment: `RABBITMQ_CACERT`. " +
					"Default: those of the system.",
			},
			"clientcert_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Path of a PEM file with the client certificate. Environment: `RABBITMQ_CLIENTCERT`. " +
					"Default: none. Needs `clientkey_file`.",
			},
			"clientkey_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Path of a PEM file with the key of the client certificate, not encrypted. Environment: " +
					"`RABBITMQ_CLIENTKEY`. Default: none. Needs `clientcert_file`.",
			},
			"proxy": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "URL of a proxy for the management API. Environment: `RABBITMQ_PROXY`. Default: what `HTTP_PROXY`, " +
					"`HTTPS_PROXY` and `NO_PROXY` say.",
			},
			"headers": schema.MapAttribute{
				ElementType: types.StringType, Optional: true, Sensitive: true,
				MarkdownDescription: "Further HTTP headers of every request, for a gateway in front of the broker. Default: none.",
			},
			"request_timeout": schema.StringAttribute{
				Optional: true, Validators: []validator.String{values.DurationAtLeast(time.Millisecond)},
				MarkdownDescription: "Maximum time for one try of one request, such as `10s`. Default: `30s`.",
			},
			"max_retries": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(0, 20)},
				MarkdownDescription: "Maximum retries after connection errors, HTTP 429 and 5xx, answers that are not JSON, and errors " +
					"of a busy broker: its metadata store timed out, or a quorum queue's Raft server did not start. The pauses grow. " +
					"Only requests that can be repeated are retried. 0 to 20. Default: `5`.",
			},
			"max_parallel_requests": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(1, 100)},
				MarkdownDescription: "Maximum number of parallel requests. 1 to 100. Default: `10`.",
			},
		},
	}
}
