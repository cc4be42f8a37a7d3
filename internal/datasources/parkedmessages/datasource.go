package parkedmessages

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

var (
	_ datasource.DataSourceWithConfigure      = (*dataSource)(nil)
	_ datasource.DataSourceWithValidateConfig = (*dataSource)(nil)
)

// timeout limits one look. RabbitMQ gives back what is held for 30 minutes.
const timeout = 10 * time.Minute

type dataSource struct {
	data *run.Data
}

// NewDataSource returns the data source rabbitmq_parked_messages.
func NewDataSource() datasource.DataSource { return &dataSource{} }

func (d *dataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_parked_messages"
}

func (d *dataSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	d.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// ValidateConfig reports what is wrong whatever the broker.
func (d *dataSource) ValidateConfig(ctx context.Context, req datasource.ValidateConfigRequest, resp *datasource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if parked.FilterIsKnown(config.Filter) {
		parked.FilterOf(config.Filter, time.Now(), &resp.Diagnostics)
	}
	if !config.Period.IsUnknown() && (config.period() < time.Second || config.period()%time.Second != 0) {
		resp.Diagnostics.AddAttributeError(path.Root("period"), "Invalid Period",
			"A period is a whole number of seconds, and at least one.")
	}
}

func (d *dataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	m.VHost = d.data.VHost(m.VHost)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(d.data, &resp.Diagnostics) || !run.KnowsVHost(m.VHost, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	filter := parked.FilterOf(m.Filter, time.Now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	limit := defaultLimit
	if !m.Limit.IsNull() {
		limit = int(m.Limit.ValueInt64())
	}
	groups := deadletter.Groups{Period: m.period()}
	m.Messages = []messageModel{}
	total := parked.Look(ctx, d.data, m.VHost.ValueString(), m.Queue.ValueString(), &resp.Diagnostics, func(p deadletter.Message) bool {
		if filter.Match(p) {
			groups.Add(p)
			if len(m.Messages) < limit {
				m.Messages = append(m.Messages, newMessage(p))
			}
		}
		return true
	})
	if resp.Diagnostics.HasError() {
		return
	}
	m.Total, m.Selected = types.Int64Value(int64(total)), types.Int64Value(groups.All().Count)
	m.Groups = newGroups(&groups)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}
