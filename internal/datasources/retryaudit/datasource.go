package retryaudit

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

var _ datasource.DataSourceWithConfigure = (*auditDataSource)(nil)

const (
	// timeout limits a read, which is a few requests.
	timeout = 2 * time.Minute
	// maxAge is how old what is known of the virtual host may be. A refresh of
	// the same plan is younger, and shares its requests. During an apply others
	// may have changed the virtual host since the first resource looked.
	maxAge = 5 * time.Second
)

type auditDataSource struct {
	data *run.Data
}

// NewDataSource returns the data source rabbitmq_retry_audit.
func NewDataSource() datasource.DataSource { return &auditDataSource{} }

func (d *auditDataSource) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_retry_audit"
}

func (d *auditDataSource) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	d.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (d *auditDataSource) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	m.VHost = d.data.VHost(m.VHost)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(d.data, &resp.Diagnostics) || !run.KnowsVHost(m.VHost, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	broker, err := d.broker(ctx)
	if err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Broker Not Read", err)
		return
	}
	client := d.data.Client
	client.Renew(m.VHost.ValueString(), maxAge)
	// The rules take seconds in a large virtual host, too long for the lock of View.
	var in *topology.Topology
	if err := client.View(ctx, m.VHost.ValueString(), func(t *topology.Topology) { in = t.Clone() }); err != nil {
		diagnostics.AddDataError(&resp.Diagnostics, err)
		return
	}
	if broker.Shovels, broker.ShovelsUnknown, err = d.shovels(ctx, m.VHost.ValueString()); err != nil {
		diagnostics.AddVHostError(&resp.Diagnostics, err)
		return
	}
	findings, err := audit.Run(ctx, in, broker)
	if err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Virtual Host Not Audited", err)
		return
	}
	m.show(broker.Version.String(), findings)
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// broker is what the rules must know besides the virtual host.
func (d *auditDataSource) broker(ctx context.Context) (audit.Broker, error) {
	info, err := d.data.Client.Info(ctx)
	if err != nil {
		return audit.Broker{}, err
	}
	deprecated, err := d.data.Client.DeprecatedFeatures(ctx)
	return audit.Broker{Version: info.Version, Deprecated: deprecated}, err
}

// shovels are the virtual host's, or why they are not known.
func (d *auditDataSource) shovels(ctx context.Context, vhost string) (list []audit.Shovel, unknown string, err error) {
	found, err := d.data.Client.Shovels(ctx, vhost)
	for _, s := range found.List {
		list = append(list, audit.Shovel(s))
	}
	return list, found.Unknown, err
}
