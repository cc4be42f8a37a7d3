package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Need is an exchange or a queue that a resource uses and that something else
// creates.
type Need struct {
	// Attribute is the attribute that names the object, as in [Path].
	Attribute string
	Kind      topology.Kind
	Name      string
	// Summary is the title of the diagnostic if it is missing.
	Summary string
	// Otherwise is another way out, a sentence or empty.
	Otherwise string
}

// RequireNeeds adds an error for each object that does not exist, and says
// whether all exist. It asks for each object, past the snapshot: another provider
// may have created it in this run.
func RequireNeeds(ctx context.Context, client *broker.Client, vhost string, needs []Need, diags *diag.Diagnostics) bool {
	whole := true
	for _, need := range needs {
		exists, err := need.exists(ctx, client, vhost)
		switch {
		case err != nil:
			diagnostics.AddError(diags, "Broker Not Read", err)
			return false
		case !exists:
			whole = false
			diags.AddAttributeError(diagnostics.Path(need.Attribute), need.Summary, diagnostics.Locate(need.Attribute, need.text(vhost)))
		}
	}
	return whole
}

// WarnOfNeeds warns during a plan of each object that neither exists nor is
// planned by this provider in the same run.
func WarnOfNeeds(ctx context.Context, data *run.Data, vhost string, needs []Need, diags *diag.Diagnostics) {
	var missing []Need
	err := data.Client.View(ctx, vhost, func(in *topology.Topology) {
		missing = slices.DeleteFunc(slices.Clone(needs), func(n Need) bool {
			return n.in(in) || data.Names.Planned(objectName(n.Kind,
				n.Name, vhost))
		})
	})
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	for _, need := range missing {
		exists, err := need.exists(ctx, data.Client, vhost)
		switch {
		case err != nil:
			diagnostics.AddError(diags, "Broker Not Read", err)
			return
		case !exists:
			text := "The apply fails unless the same run creates it first. " + need.text(vhost)
			diags.AddAttributeWarning(diagnostics.Path(need.Attribute), need.Summary, diagnostics.Locate(need.Attribute, text))
		}
	}
}

func (n Need) in(t *topology.Topology) (exists bool) {
	if n.Kind == topology.KindQueue {
		_, exists = t.Queue(n.Name)
	} else {
		_, exists = t.Exchange(n.Name)
	}
	return exists
}

func (n Need) exists(ctx context.Context, client *broker.Client, vhost string) (exists bool, err error) {
	if n.Kind == topology.KindQueue {
		_, exists, err = client.Queue(ctx, vhost, n.Name)
	} else {
		_, exists, err = client.Exchange(ctx, vhost, n.Name)
	}
	return exists, err
}

func (n Need) text(vhost string) string {
	kind := "Exchange"
	if n.Kind == topology.KindQueue {
		kind = "Queue"
	}
	text := fmt.Sprintf("%s %q does not exist in virtual host %q. Create it first. If the same run creates it, refer to its resource "+
		"here, so that Terraform knows the order.", kind, n.Name, vhost)
	if n.Otherwise != "" {
		text += " " + n.Otherwise
	}
	return text
}
