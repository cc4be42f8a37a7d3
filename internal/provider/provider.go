// Package provider is the provider block: its schema, its configuration and
// the list of what the provider offers.
package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/datasources/parkedmessages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/datasources/retryaudit"
	ephemeralmessages "github.com/retrychain/terraform-provider-rabbitmq/internal/ephemeral/parkedmessages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/functions"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/delaydestination"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/delaynetwork"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/redrive"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/retryattachment"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/retrychain"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/resources/retrytiers"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

var (
	_ provider.Provider                       = (*rabbitmqProvider)(nil)
	_ provider.ProviderWithActions            = (*rabbitmqProvider)(nil)
	_ provider.ProviderWithEphemeralResources = (*rabbitmqProvider)(nil)
	_ provider.ProviderWithFunctions          = (*rabbitmqProvider)(nil)
)

type rabbitmqProvider struct {
	version    string
	statistics time.Duration
}

// Option changes a provider.
type Option func(*rabbitmqProvider)

// WithStatisticsInterval is for tests, whose brokers renew their counts of messages
// more often than every 5 s. See [broker.Config].
func WithStatisticsInterval(interval time.Duration) Option {
	return func(p *rabbitmqProvider) { p.statistics = interval }
}

// New returns a constructor of the provider in the given version.
func New(version string, options ...Option) func() provider.Provider {
	return func() provider.Provider {
		p := &rabbitmqProvider{version: version}
		for _, set := range options {
			set(p)
		}
		return p
	}
}

func (p *rabbitmqProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "rabbitmq"
	resp.Version = p.version
}

// Configure builds the client of the broker. It makes no request: a broker that
// cannot be reached is an error of the first resource that needs it.
func (p *rabbitmqProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	data := &run.Data{Names: run.NewNames(), DefaultVHost: config.defaultVHost()}
	if !config.hasUnknown() {
		settings := config.settings(ctx, &resp.Diagnostics)
		if resp.Diagnostics.HasError() {
			return
		}
		settings.StatisticsInterval = p.statistics
		settings.UserAgent = "terraform-provider-rabbitmq/" + p.version
		client, err := broker.New(settings)
		if err != nil {
			addConfigError(&resp.Diagnostics, err)
			return
		}
		data.Client = client
	}
	resp.ResourceData = data
	resp.DataSourceData = data
	resp.EphemeralResourceData = data
	resp.ActionData = data
	resp.ListResourceData = data
}

func (p *rabbitmqProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		retrychain.NewResource, retrytiers.NewResource, retryattachment.NewResource, delaynetwork.NewResource, delaydestination.NewResource,
		redrive.NewRedriveResource, redrive.NewDiscardResource,
	}
}

func (p *rabbitmqProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{parkedmessages.NewDataSource, retryaudit.NewDataSource}
}

func (p *rabbitmqProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{ephemeralmessages.NewEphemeralResource}
}

func (p *rabbitmqProvider) Functions(context.Context) []func() function.Function {
	return functions.All()
}

func (p *rabbitmqProvider) Actions(context.Context) []func() action.Action {
	return []func() action.Action{redrive.NewRedriveAction, redrive.NewDiscardAction}
}
